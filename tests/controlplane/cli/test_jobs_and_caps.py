"""Jobs and spend caps on the command line: what is asked for, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.remote import contexts, jobs, waiting
from tests.support.fake_api import FakeApi, fake_api

CAP = {"amount": "50.00", "currency": "EUR", "action": "stop"}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Somebody has signed in there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "acme", "secret")}))
        yield served


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def job(state: str, done: int | None, total: int | None = 10, **fields: Any) -> dict[str, Any]:
    shown = {"id": "change-1", "kind": "topics.delete", "resource": "t", "tenant": "acme", "unit": "partitions", "counts": {}}
    return {**shown, "state": state, "done": done, "total": total, "begun_at": None, "ended_at": None, "error": "", **fields}


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (job("running", 5), f"[{'#' * 15}{'.' * 15}] 5 of 10 partitions, running"),
        (job("running", 12), f"[{'#' * 30}] 12 of 10 partitions, running"),
        (job("running", 5, None, counts={"moved": 3}), "running, 5 partitions, moved: 3"),
        (job("waiting", None, None), "waiting"),
    ],
)
def test_progress_is_a_bar_where_it_is_known_how_much_there_is(shown: dict[str, Any], text: str) -> None:
    assert jobs.progress_text(shown) == text


def test_waiting_ends_with_the_job(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLLS_S", (0, 0))
    at = "tenants/acme/jobs/change-1"
    api.answer("GET", at, (200, job("waiting", None)), (200, job("running", 5)), (200, job("done", 10)))
    done = run("jobs", "wait", "change-1")
    assert done.exit_code == 0 and "5 of 10 partitions, running" in done.output
    api.answer("GET", at, (200, job("failed", 5, error="the disk is full")))
    failed = run("jobs", "wait", "change-1")
    assert failed.exit_code == 7 and "job change-1 is failed: the disk is full" in failed.output


def test_a_redrive_is_waited_for_in_the_same_way(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLLS_S", (0, 0))
    at, moving = "tenants/acme/namespaces/orders/topics/dead/redrives", {"id": "j1", "looked_at": 5, "moved": 3, "error": ""}
    api.answer("POST", at, (201, {**moving, "state": "running"}))
    api.answer("GET", f"{at}/j1", (200, {**moving, "state": "running"}), (200, {**moving, "state": "done", "moved": 4}))
    done = run("redrive", "start", "acme/orders/dead", "acme/orders/again", "--wait")
    assert done.exit_code == 0 and "5 entries looked at, 4 messages moved" in done.output


def test_jobs_are_of_the_tenant_or_the_platform(api: FakeApi) -> None:
    page = {"items": [job("running", 5)], "next": None}
    for path in ("tenants/acme/jobs?active=true&limit=1000", "tenants/acme/jobs?limit=1000", "jobs?active=true&limit=1000"):
        api.answer("GET", path, (200, page))
    for arguments in ((), ("--all",), ("--platform",)):
        listed = run("jobs", "list", *arguments)
        assert listed.exit_code == 0 and "change-1" in listed.output
    api.answer("DELETE", "tenants/acme/jobs/redrive-1", (200, job("cancelled", 5)))
    api.answer("DELETE", "jobs/task-1", (200, job("cancelled", 5)))
    assert run("jobs", "cancel", "redrive-1").exit_code == 0 == run("jobs", "cancel", "task-1", "--platform").exit_code


def test_a_cap_is_set_shown_and_removed(api: FakeApi) -> None:
    rates = dict.fromkeys(("publish_rate_messages", "publish_rate_bytes", "dispatch_rate_messages", "dispatch_rate_bytes"), 0)
    cap = {"set_by": "tenant", **CAP, **rates, "used_percent": 122, "reached": True, "unknown": ""}
    for whose in ("tenant", "platform"):
        api.answer("PUT", f"tenants/acme/spend-caps/{whose}", (200, cap))
        api.answer("DELETE", f"tenants/acme/spend-caps/{whose}", (204, None))
    assert run("spend-caps", "set", "50.00", "EUR", "--action", "stop").exit_code == 0
    assert (api.asked[-1].path, api.asked[-1].body) == ("tenants/acme/spend-caps/tenant", CAP)
    assert run("spend-caps", "remove", "--platform").exit_code == 0 and api.asked[-1].path.endswith("/platform")
    shown = {"month": "2026-03-01", "spent": "61.00", "currency": "EUR", "usage_until": None, "unknown": "", "caps": [cap]}
    told = {"stopped": "the cap is reached", "throttled_to": {"tenant_publish_rate_messages": 5}}
    api.answer("GET", "tenants/acme/spend-caps", (200, {**shown, **told}))
    output = run("spend-caps", "show").output
    for text in ("spent in 2026-03: 61.00 EUR", "none yet", "stopped: the cap", "tenant_publish_rate_messages = 5", "122"):
        assert text in output
    nothing: dict[str, Any] = {
        "spent": None,
        "currency": "",
        "unknown": "nothing of the month has been billed yet",
        "stopped": "",
        "throttled_to": {},
    }
    api.answer("GET", "tenants/acme/spend-caps", (200, {**shown, **nothing, "caps": []}))
    assert "unknown: nothing of the month" in run("spend-caps", "show").output
