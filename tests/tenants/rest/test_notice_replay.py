"""Notices that a webhook missed are sent to it again, when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenants.models import AuditRecord, Tenant
from tests.tenants.world import Caller, World
from workers.alerts import actions
from workers.alerts.models import Notice, NotificationTarget
from workers.models import TaskRun
from workers.schedule import SEND_NOTICE

NOTICES = "/api/v1/tenants/acme/notices"
SINCE = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


def of_acme() -> dict[str, str]:
    return {"tenant": "acme", "tenant_uid": Tenant.unscoped.get(name="acme").uid}


def webhook() -> None:
    NotificationTarget.unscoped.create(**of_acme(), webhook_url="https://hooks.example.com/x")


def notice(name: str, minutes: int = 0, **delivered: str) -> None:
    about: dict[str, Any] = {
        "id": name,
        "subject": name,
        "kind": "alert_fired",
        "title": name,
        "text": name,
        "delivered": delivered,
    }
    Notice.unscoped.create(**of_acme(), **about, at=SINCE + timedelta(minutes=minutes))


def sent_again() -> list[str]:
    runs = TaskRun.objects.filter(name=SEND_NOTICE).order_by("started_at")
    return [run.arguments["notice"] for run in runs]


def test_a_notice_is_sent_again_to_the_webhook_alone(olga: Caller) -> None:
    webhook()
    notice("n1", webhook="answered 200", mail="sent")
    answer = olga("POST", f"{NOTICES}/n1/replay")
    assert (answer.status_code, answer.json()["delivered"]) == (202, {"mail": "sent"})
    assert sent_again() == ["n1"]
    assert AuditRecord.unscoped.filter(action="notice.replay", tenant="acme").count() == 1


def test_those_that_did_not_arrive_are_sent_again_from_a_time_on(olga: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    webhook()
    notice("early", -1)
    notice("arrived", 1, webhook="answered 204")
    notice("refused", 2, webhook="the address is not public")
    notice("never", 3)
    notice("late", 9)
    asked = {"since": "2026-11-01T00:00:00Z", "until": "2026-11-01T00:05:00Z"}
    assert olga("POST", f"{NOTICES}/replays", asked).json() == {"notices": 2, "following": None}
    assert sent_again() == ["refused", "never"]
    assert AuditRecord.unscoped.get(action="notice.replay").after == {"notices": 2, "since": "2026-11-01T00:00:00+00:00"}
    TaskRun.objects.all().delete()
    monkeypatch.setattr(actions, "REPLAYED_MAX", 2)
    everything = olga("POST", f"{NOTICES}/replays", {**asked, "failed_only": False}).json()
    assert everything == {"notices": 2, "following": "2026-11-01T00:03:00Z"}
    assert sent_again() == ["arrived", "refused"]


def test_without_a_webhook_there_is_nothing_to_send_it_to(olga: Caller) -> None:
    notice("n1")
    for path, body in (("n1/replay", None), ("replays", {"since": "2026-11-01T00:00:00Z"})):
        refused = olga("POST", f"{NOTICES}/{path}", body)
        assert refused.status_code == 412 and "no webhook" in refused.json()["detail"]
    assert sent_again() == []


def test_notices_of_others_are_not_sent(olga: Caller, caller: Callable[[str], Caller]) -> None:
    webhook()
    notice("n1")
    for path, body in (("n1/replay", None), ("replays", {"since": "2026-11-01T00:00:00Z"})):
        assert caller("tom")("POST", f"{NOTICES}/{path}", body).status_code == 403
        assert caller("sam")("POST", f"{NOTICES}/{path}", body).status_code == 404
    own = NOTICES.replace("acme", "other")
    assert caller("sam")("POST", f"{own}/n1/replay").status_code == 404
    assert olga("POST", f"{NOTICES}/n2/replay").status_code == 404
    assert sent_again() == []
