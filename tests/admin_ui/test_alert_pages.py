"""Alerts in the console: those of the platform, and what was not mailed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
import time_machine
from django.conf import settings as django_settings

from tenants.access import platform_actor
from tenants.actions import set_member
from tenants.models import AuditRecord, Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from workers.alerts.models import AlertRule, MailUsage, Notice, NotificationTarget, PlatformAlert
from workers.alerts.notices import OfRule, TenantRef, say

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_noon(world: ConsoleBroker) -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def test_administrators_see_the_disk_and_say_where_notices_go(world: ConsoleBroker, browse: Browse) -> None:
    admin = browse("superuser")
    assert "It was not looked at yet" in text(admin, "/platform/alerts")
    PlatformAlert.objects.create(name="disk", firing=True, value=91, looked_at=NOW)
    say(NOW, TenantRef("", ""), "disk_low", "disk 1", "The disk is nearly full", "91 % are used")
    say(NOW, TenantRef("acme", Tenant.unscoped.get(name="acme").uid), "budget", "b 1", "Budget of acme", "of a tenant")
    page = text(admin, "/platform/alerts")
    assert "91 % used" in page and "The disk is nearly full" in page and "Budget of acme" not in page
    assert "Budget of acme" in text(browse("owner"), "/tenants/acme/alerts")
    assert "nearly full" not in text(browse("owner"), "/tenants/acme/alerts")
    for wrong in ({"webhook_url": "ftp://h/"}, {"mail_to": "nobody"}):
        assert admin.post("/platform/alerts", wrong).status_code == 200
    assert not NotificationTarget.unscoped.exists()
    given = {"webhook_url": "https://hook.example/x", "mail_to": "ops@magnetar.example sre@magnetar.example"}
    assert admin.post("/platform/alerts", given).status_code == 302
    target = NotificationTarget.unscoped.get()
    assert (target.tenant_uid, target.mail_to) == ("", ["ops@magnetar.example", "sre@magnetar.example"])
    assert target.secret in text(admin, "/platform/alerts")
    assert AuditRecord.unscoped.get(action="notifications.set").resource == "notifications"


def test_how_often_rules_are_looked_at_is_what_is_set(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, alert_interval_s=600))
    assert "Time between two looks: 10 min." in text(browse("owner"), "/tenants/acme/alerts")


@pytest.mark.parametrize("page", ["alerts", "budgets", "reports"])
def test_mails_that_were_not_sent_are_said(world: ConsoleBroker, browse: Browse, page: str) -> None:
    acme = Tenant.unscoped.get(name="acme")
    fields = {"tenant": "acme", "tenant_uid": acme.uid, "sent": 200}
    said = "not sent:</strong> this tenant has reached its limit"
    row = MailUsage.unscoped.create(day=NOW.date(), **fields)
    assert said not in text(browse("owner"), f"/tenants/acme/{page}")
    row.refused = 3
    row.save()
    assert said in text(browse("owner"), f"/tenants/acme/{page}") and "3 mails" in text(browse("owner"), f"/tenants/acme/{page}")
    assert said not in text(browse("stranger"), f"/tenants/globex/{page}")


PAGE = "/tenants/acme/alerts"
PLACED = "persistent://acme/orders/placed"
RULE = {"what": "rule", "name": "Payments wait", "kind": "backlog_entries", "threshold": "10", "clear": "5", "hold_s": "0"}


def test_a_rule_with_a_pattern_has_a_page_where_it_is_changed_and_silenced(world: ConsoleBroker, browse: Browse) -> None:
    owner = browse("owner")
    bad = owner.post(PAGE, {**RULE, "topic": "persistent://acme/orders/absent"}).content.decode()
    assert "does not exist" in bad and "Payments wait" in bad, "what was typed is still there"
    given = {**RULE, "topic": "persistent://acme/orders/pay-*", "runbook_url": "https://books.example/wait"}
    assert owner.post(PAGE, given).status_code == 302
    rule = AlertRule.unscoped.get()
    values = {"persistent://acme/orders/pay-a": 3, "persistent://acme/orders/pay-b": 12}
    rule.topics = {name: {"value": value, "firing": value > 9} for name, value in values.items()}
    rule.firing, rule.value, rule.looked_at = True, 12, NOW
    rule.save()
    say(NOW, TenantRef("acme", rule.tenant_uid), "alert_fired", "s", "It fired: pay-b", "12", of=OfRule(rule.id, rule.runbook_url))
    say(NOW, TenantRef("acme", rule.tenant_uid), "key_expires", "k", "A key expires", "soon")
    at = f"{PAGE}/{rule.id}"
    assert f'href="{at}"' in text(owner, PAGE) and "Firing" in text(owner, PAGE)
    rule.problem = "broker-2 did not answer"
    rule.save()
    page = text(owner, at)
    assert page.count('value">unknown<') == 3 and ">quiet<" not in page, "what it was is not what it is"
    assert 'value">unknown' in text(owner, PAGE) and 'value">12' not in text(owner, PAGE)
    assert "Firing" in text(owner, PAGE), "it is not known to be over"
    rule.topics["persistent://acme/orders/pay-b"]["unknown"] = True
    rule.save()
    page = text(owner, at)
    assert page.count('value">unknown<') == 1 and page.count('value">3<') == 2, "the other one was looked at"
    rule.topics["persistent://acme/orders/pay-b"]["unknown"] = False
    rule.problem = ""
    rule.save()
    page = text(owner, at)
    assert page.index(">pay-b<") < page.index(">pay-a<"), "those that fire come first"
    assert "It fired: pay-b" in page and "A key expires" not in page
    assert page.count('href="https://books.example/wait"') == 2
    change = {"what": "change", "name": "Payments wait", "threshold": "20", "clear": "30", "hold_s": "0", "runbook_url": ""}
    assert "clear at most threshold" in owner.post(at, change).content.decode()
    assert owner.post(at, {**change, "clear": "15"}).status_code == 302
    assert owner.post(at, {"what": "silence", "for_s": "86400", "reason": "we move"}).status_code == 302
    rule.refresh_from_db()
    assert (rule.threshold, rule.clear, rule.runbook_url, rule.silence_reason) == (20, 15, "", "we move")
    assert "we move" in text(owner, at) and "Silenced" in text(owner, PAGE)
    assert owner.post(at, {"what": "silence", "for_s": "999999999"}).status_code == 200
    assert owner.post(at, {"what": "unsilence"}).status_code == 302
    for who, status in (("teammate", 403), ("stranger", 404)):
        assert browse(who).get(at).status_code == status
        assert browse(who).post(at, {"what": "delete"}).status_code == status
    assert owner.get(f"{PAGE}/gone").status_code == 404
    asked = owner.post(at, {"what": "delete"})
    assert asked.status_code == 200 and "silence the rule instead" in asked.content.decode() and AlertRule.unscoped.exists()
    assert owner.post(at, {"what": "delete", "confirmed": "yes"}).status_code == 302
    assert not AlertRule.unscoped.exists()
    assert set(AuditRecord.unscoped.filter(action__startswith="alert_rule.").values_list("action", flat=True)) == {
        "alert_rule.create", "alert_rule.change", "alert_rule.silence", "alert_rule.delete",
    }  # fmt: skip
    assert "Deleted rules" in text(owner, PAGE)
    assert browse("teammate").post(PAGE, {"what": "restore", "rule": rule.id}).status_code == 403
    assert owner.post(PAGE, {"what": "restore", "rule": rule.id}).status_code == 302
    assert "It fired: pay-b" in text(owner, at) and "Deleted rules" not in text(owner, PAGE)
    assert "was deleted in the last 24 hours" in owner.post(PAGE, {"what": "restore", "rule": rule.id}).content.decode()


def test_whoever_operates_sets_and_silences_alerts_but_not_where_notices_are_sent(world: ConsoleBroker, browse: Browse) -> None:
    """As over the API."""
    set_member(platform_actor(), "acme", "teammate", "operator")
    operator = browse("teammate")
    assert browse("owner").post(PAGE, {"what": "target", "webhook_url": "https://hooks.example/x"}).status_code == 302
    secret = NotificationTarget.unscoped.get(tenant="acme").secret
    assert operator.post(PAGE, {**RULE, "topic": PLACED}).status_code == 302
    at = f"{PAGE}/{AlertRule.unscoped.get().id}"
    assert operator.post(at, {"what": "silence", "for_s": "3600"}).status_code == 302
    assert AlertRule.unscoped.get().silenced_until is not None
    page = text(operator, PAGE)
    assert "Payments wait" in page and 'value="test"' in page and f'href="{PAGE}"' in page
    assert secret and secret in text(browse("owner"), PAGE) and secret not in page and "hooks.example" not in page
    assert operator.post(PAGE, {"what": "target", "topic": PLACED}).status_code == 403
    assert NotificationTarget.unscoped.get(tenant="acme").webhook_url == "https://hooks.example/x"


def test_a_change_of_a_rule_keeps_what_somebody_else_changed_meanwhile(world: ConsoleBroker, browse: Browse) -> None:
    owner, other = browse("owner"), browse("superuser")
    assert owner.post(PAGE, {**RULE, "topic": PLACED}).status_code == 302
    rule = AlertRule.unscoped.get()
    at = f"{PAGE}/{rule.id}"
    seen = {"what": "change", **dict(re.findall(r'name="(seen-\w+)" value="([^"]*)"', text(owner, at)))}
    assert seen["seen-threshold"] == "10"
    fields = {"name": "Payments wait", "threshold": "10", "clear": "5", "hold_s": "0", "runbook_url": ""}
    assert other.post(at, {**seen, **fields, "threshold": "99"}).status_code == 302
    assert owner.post(at, {**seen, **fields, "hold_s": "7"}).status_code == 302
    rule.refresh_from_db()
    assert (rule.threshold, rule.hold_s) == (99, 7)
    refused = owner.post(at, {**seen, **fields, "threshold": "50", "hold_s": "7"}).content.decode()
    assert "Somebody changed it meanwhile to 99" in refused and 'name="seen-threshold" value="99"' in refused
    rule.refresh_from_db()
    assert rule.threshold == 99
    assert owner.post(at, {**seen, **fields, "seen-threshold": "99", "threshold": "50", "hold_s": "7"}).status_code == 302
    rule.refresh_from_db()
    assert rule.threshold == 50


def test_notices_are_tried_where_they_go(world: ConsoleBroker, browse: Browse) -> None:
    owner = browse("owner")
    assert 'value="test"' not in text(owner, PAGE), "they go nowhere"
    wrong = owner.post(PAGE, {"what": "target", "topic": "persistent://globex/edge/t"}).content.decode()
    assert "is not one of tenant acme" in wrong
    assert owner.post(PAGE, {"what": "target", "topic": PLACED}).status_code == 302
    assert 'value="test"' in text(owner, PAGE)
    assert owner.post(PAGE, {"what": "test"}).status_code == 302
    assert "This is a test notice" in text(owner, PAGE)
    assert browse("teammate").post(PAGE, {"what": "test"}).status_code == 403
    assert Notice.unscoped.count() == 1


def test_notices_are_pages_of_the_address(world: ConsoleBroker, browse: Browse) -> None:
    uid = Tenant.unscoped.get(name="acme").uid
    Notice.unscoped.bulk_create(
        Notice(tenant_uid=uid, subject=f"s{number}", kind="test", title=f"Notice {number:03}", text="said", at=NOW)
        for number in range(130)
    )
    owner = browse("owner")
    first = text(owner, f"{PAGE}?notices-sort=title")
    assert "130 notices" in first and "Notice 000" in first and "Notice 129" not in first and "Page 1 of 2" in first
    second = text(owner, f"{PAGE}?notices-sort=title&notices-page=2")
    assert "Notice 129" in second and "Notice 000" not in second and "?notices-sort=title#notices" in second
    found = text(owner, f"{PAGE}?notices-q=notice 12")
    assert "10 notices" in found and "Notice 121" in found and "Notice 119" not in found
    assert "No notice matches" in text(owner, f"{PAGE}?notices-q=nobody")
