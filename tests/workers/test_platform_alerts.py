"""The platform's own alerts: a disk that is nearly full is said once, to administrators, and that it is over, once."""

from __future__ import annotations

from typing import Any

import pytest

from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.brokers.worker_broker import Clock
from workers import mail
from workers.alerts import platform
from workers.alerts.models import Notice, PlatformAlert
from workers.alerts.platform import Disk, set_platform_target
from workers.alerts.tasks import evaluate_alerts, send_notice
from workers.environment import Environment
from workers.models import TaskRun
from workers.runs import run_recorded
from workers.schedule import EVALUATE_ALERTS, SEND_NOTICE

pytestmark = pytest.mark.django_db


def test_how_much_of_a_disk_is_used() -> None:
    assert [Disk(1000, free).used_percent for free in (1000, 151, 150, 0)] == [0, 85, 85, 100]
    assert Disk(0, 0).used_percent == 0


def test_a_disk_that_is_nearly_full_is_said_once_and_that_it_is_over(
    environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailed: list[tuple[str, ...]] = []
    monkeypatch.setattr(mail, "send", lambda settings, to, subject, text, files: mailed.append((*to, subject)) or "mailed to 1")
    Tenant.unscoped.create(name="acme", uid="u1")
    set_platform_target(platform_actor(), "", ["ops@magnetar.example"])
    firing = []
    for number, free in enumerate((50, 15, 18, 12, 20, 21, 16, 15)):
        monkeypatch.setattr(platform, "disk_of", lambda path, free=free: Disk(100, free))
        done = run_recorded(environment, EVALUATE_ALERTS, f"look-{number}", evaluate_alerts)
        assert done["disk"] == f"{100 - free} % used"
        firing.append(PlatformAlert.objects.get().firing)
        clock.advance(60)
    assert firing == [False, True, True, True, True, False, False, True]
    notices = list(Notice.unscoped.order_by("at"))
    assert [(notice.kind, notice.tenant_uid) for notice in notices] == [("disk_low", ""), ("disk_over", ""), ("disk_low", "")]
    assert "85 % of the disk of" in notices[0].text
    for run in TaskRun.objects.filter(name=SEND_NOTICE):
        run_recorded(environment, SEND_NOTICE, run.task_id, send_notice, **run.arguments)
    assert sorted(mailed) == [("ops@magnetar.example", f"The disk {word}") for word in ("has room again", *["is nearly full"] * 2)]


def test_a_disk_that_cannot_be_looked_at_holds_up_no_rule(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Any) -> Disk:
        raise FileNotFoundError(path)

    monkeypatch.setattr(platform, "disk_of", gone)
    done = run_recorded(environment, EVALUATE_ALERTS, "look", evaluate_alerts)
    assert done["outcome"] == "succeeded" and done["disk"].startswith("FileNotFoundError") and not Notice.unscoped.exists()


def test_the_real_disk_is_looked_at(environment: Environment) -> None:
    assert run_recorded(environment, EVALUATE_ALERTS, "look", evaluate_alerts)["disk"].endswith("% used")
    assert 0 <= PlatformAlert.objects.get().value <= 100
