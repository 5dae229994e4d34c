"""Mails and what webhooks are sent are in the language of the tenant, or in that of the platform."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from messaging.settings import Settings
from tenants.models import Tenant
from tests.support.brokers.worker_broker import START
from workers import mail
from workers.alerts import sentences
from workers.alerts.models import Notice
from workers.alerts.notices import OfRule, TenantRef, say
from workers.alerts.tasks import body_of, send_notice
from workers.environment import Environment

pytestmark = pytest.mark.django_db
ENGLISH, GERMAN = "Alert 'waits' fired", "Alarm 'waits' ausgelöst"


def noticed(language: str, uid: str = "u1") -> Notice:
    if uid:
        Tenant.unscoped.create(name="acme", uid=uid, language=language)
    title = sentences.alert_title("waits", "", firing=True, was_silenced=False)
    text = sentences.alert_text("no_consumer", "persistent://acme/shop/orders", 1, 1, 1, [])
    told, of = TenantRef("acme" if uid else "", uid), OfRule("r1", "https://runbook.example/1")
    made = say(START, told, "alert_fired", "alert r1", title, text, ["ops@acme.example"], of)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("of_platform", "of_tenant", "title"), [("en", "", ENGLISH), ("en", "de", GERMAN), ("de", "", GERMAN), ("de", "en", ENGLISH)]
)
def test_a_mail_and_a_webhook_are_in_the_language_of_the_tenant(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, of_platform: str, of_tenant: str, title: str
) -> None:
    mailed: list[tuple[str, str]] = []
    monkeypatch.setattr(mail, "send", lambda settings, to, subject, text, files: mailed.append((subject, text)) or "mailed to 1")
    settings = msgspec.structs.replace(environment.settings, language=of_platform)
    notice = noticed(of_tenant)
    send_notice(Environment(settings, environment.rpc), "task", lambda **progress: None, notice.id)
    ((subject, text),) = mailed
    assert subject == title and text.endswith("\n\nRunbook: https://runbook.example/1")
    assert text.startswith("Kein Consumer von" if title == GERMAN else "No consumer of")
    body = json.loads(body_of(settings, notice))
    assert (body["title"], body["kind"], body["tenant"], body["rule"]) == (title, "alert_fired", "acme", "r1")
    assert notice.title == ENGLISH, "it is kept in English, and shown to each reader in their own language"


@pytest.mark.parametrize(("language", "title"), [("en", ENGLISH), ("de", GERMAN)])
def test_notices_of_the_platform_are_in_its_language(settings_of: Callable[..., Settings], language: str, title: str) -> None:
    assert json.loads(body_of(settings_of(language=language), noticed("", uid="")))["title"] == title
