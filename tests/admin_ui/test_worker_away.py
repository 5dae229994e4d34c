"""Pages that show what a worker does say when none does."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from admin_ui.permissions import CONSOLE
from admin_ui.worker_away import MEANING
from tests.admin_ui.pages import Browse, text
from workers.models import TaskRun, UsageRun
from workers.schedule import EXPIRE_MESSAGES, RUN_USAGE_JOB

AWAY = "No worker has begun a task since"


def ran(task_id: str, ago: timedelta, outcome: str = "succeeded", name: str = EXPIRE_MESSAGES) -> None:
    TaskRun.objects.create(task_id=task_id, name=name, started_at=timezone.now() - ago, outcome=outcome)


def test_every_page_that_is_named_is_one() -> None:
    assert {route for route in MEANING if ("GET", f"console:{route}") not in CONSOLE} == set()


def test_a_page_says_since_when_no_worker_runs_and_what_that_means_there(browse: Browse) -> None:
    for who, path, meaning in (
        ("owner", "/usage", "Usage is as it was computed last."),
        ("owner", "/tenants/acme/dead-letters", "Redrives stand still"),
        ("owner", "/tenants/acme/alerts", "Rules are not evaluated"),
        ("owner", "/tenants/acme/keys", "When keys were last used is known up to then."),
        ("superuser", "/tasks", "is begun once it is back"),
    ):
        TaskRun.objects.all().delete()
        assert AWAY not in text(browse(who), path), path  # one that has just been installed
        ran("r1", timedelta(minutes=5))
        page = text(browse(who), path)
        assert AWAY in page and meaning in page, path
        ran("r2", timedelta(seconds=5), "running")
        assert AWAY not in text(browse(who), path), path
    assert AWAY not in text(browse("owner"), "/tenants/acme")


def test_a_run_that_somebody_asked_for_is_no_sign_of_a_worker(browse: Browse) -> None:
    ran("r1", timedelta(minutes=5))
    ran("r2", timedelta(seconds=1), "queued", RUN_USAGE_JOB)
    UsageRun.objects.create(run_id="r2", outcome="requested", requested_at=timezone.now())
    page = text(browse("superuser"), "/usage")
    assert AWAY in page and "A run was asked for" in page and "no worker has begun it yet" in page
    assert "Not running tasks" in text(browse("superuser"), "/platform")


def test_a_page_that_is_open_is_told_when_that_changes(browse: Browse) -> None:
    ran("r1", timedelta(minutes=5))
    away = text(browse("owner"), "/worker", of="usage", seen="")
    assert AWAY in away
    seen = str(int(TaskRun.objects.get().started_at.timestamp()))
    assert f"seen={seen}" in away
    assert browse("owner").get("/worker", {"of": "usage", "seen": seen}).status_code == 204
    ran("r2", timedelta(0), "running")
    back = browse("owner").get("/worker", {"of": "usage", "seen": seen})
    assert back.status_code == 200 and AWAY not in back.content.decode()
    assert browse("owner").get("/worker", {"of": "usage", "seen": ""}).status_code == 204


def test_whoever_is_not_signed_in_is_not_told(browse: Browse) -> None:
    ran("r1", timedelta(minutes=5))
    assert browse("").get("/worker", {"of": "usage"}).status_code == 302
    assert browse("owner").get("/worker", {"of": "no-such-page"}).status_code == 204
