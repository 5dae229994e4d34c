"""Jobs over our API: everything that runs long under one name, for whom may see it, by pages; cancelled where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.adminrpc import calls
from messaging.adminrpc.changes import ChangeProgress
from messaging.broker.runtime.admin import changes
from tenants.models import AuditRecord, Tenant
from tests.support.waiting import eventually_sync
from tests.tenants.world import Caller, World
from workers.jobs import sources
from workers.models import TaskRun
from workers.redrive.models import RedriveJob
from workers.schedule import MAKE_INVOICES, REDRIVE

JOBS, OF_PLATFORM = "/api/v1/tenants/acme/jobs", "/api/v1/jobs"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def redrive(job_id: str, tenant: str = "acme", **fields: Any) -> None:
    about = {"topic": f"persistent://{tenant}/orders/dead", "target": f"persistent://{tenant}/orders/t", "subscription": "s"}
    uid = Tenant.unscoped.get(name=tenant).uid
    values = {"tenant": tenant, "tenant_uid": uid, "idempotency_key": job_id, "created_at": NOW, **about, **fields}
    RedriveJob.unscoped.create(id=job_id, **values)


def run(task_id: str, outcome: str, name: str = MAKE_INVOICES, **fields: Any) -> None:
    TaskRun.objects.create(task_id=task_id, key=task_id, name=name, outcome=outcome, started_at=NOW, **fields)


def ids(answer: Any) -> list[str]:
    return [job["id"] for job in answer.json()["items"]]


def test_a_tenant_sees_its_redrives_and_cancels_one(world: World, caller: Callable[[str], Caller]) -> None:
    olga, tom, sam = caller("olga"), caller("tom"), caller("sam")
    redrive("a1", looked_at=10, moved=7, left=3, requested_by="user:olga")
    redrive("a2", state="done", looked_at=5, finished_at=NOW)
    redrive("b1", "other")
    shown = olga("GET", f"{JOBS}/redrive-a1").json()
    assert {name: shown[name] for name in ("kind", "resource", "state", "done", "total", "unit", "counts", "requested_by")} == {
        "kind": "redrive", "resource": "persistent://acme/orders/dead", "state": "running", "done": 10, "total": None,
        "unit": "entries", "counts": {"moved": 7, "left": 3}, "requested_by": "user:olga",
    }  # fmt: skip
    assert ids(olga("GET", JOBS)) == ["redrive-a1", "redrive-a2"] and ids(olga("GET", f"{JOBS}?active=true")) == ["redrive-a1"]
    assert ids(tom("GET", JOBS)) == [], "who may not operate sees no redrives"
    assert [tom("GET", f"{JOBS}/redrive-a1").status_code, tom("DELETE", f"{JOBS}/redrive-a1").status_code] == [404, 403]
    for method in ("GET", "DELETE"):
        assert sam(method, f"{JOBS}/redrive-a1").status_code == 404
        assert sam(method, "/api/v1/tenants/other/jobs/redrive-a1").status_code == 404, "it is of another tenant"
        assert olga(method, f"{JOBS}/nothing").status_code == 404
        assert olga(method, f"{JOBS}/change-nothing").status_code == 404
    ended = olga("DELETE", f"{JOBS}/redrive-a1")
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
    assert olga("DELETE", f"{JOBS}/redrive-a1").status_code == 412
    records = AuditRecord.unscoped.filter(action="redrive.cancel", tenant="acme").order_by("id")
    assert [record.after for record in records] == [{"state": "cancelled"}, {"job_id": "redrive-a1", "status": "412"}]


def test_the_platform_sees_tasks_and_all_redrives(world: World, call: Caller, caller: Callable[[str], Caller]) -> None:
    redrive("a1")
    redrive("b1", "other")
    run("r1", "running", progress={"looked_at": 4, "nested": {}}, arguments={})
    run("r2", "quarantined", summary={"why": "poison"}, finished_at=NOW)
    run("r3", "succeeded", finished_at=NOW, requested_by="admin")
    run("r4", "running", name=REDRIVE, arguments={"job": "a1"})
    assert ids(call("GET", OF_PLATFORM)) == ["redrive-a1", "redrive-b1", "task-r1", "task-r2", "task-r3"]
    assert ids(call("GET", f"{OF_PLATFORM}?active=true")) == ["redrive-a1", "redrive-b1", "task-r1"]
    running, poisoned = (call("GET", f"{OF_PLATFORM}/task-{task_id}").json() for task_id in ("r1", "r2"))
    assert (running["state"], running["done"], running["total"], running["counts"]) == ("running", None, None, {"looked_at": 4})
    assert (poisoned["state"], poisoned["error"], poisoned["cancellable"]) == ("failed", "poison", True)
    assert call("DELETE", f"{OF_PLATFORM}/task-r1").status_code == 412
    assert call("DELETE", f"{OF_PLATFORM}/task-r2").json()["state"] == "cancelled"
    assert call("DELETE", f"{OF_PLATFORM}/redrive-b1").json()["state"] == "cancelled"
    assert call("GET", f"{OF_PLATFORM}/task-none").status_code == 404 == call("GET", f"{OF_PLATFORM}/task-r4").status_code
    assert list(AuditRecord.unscoped.order_by("-id").values_list("action", flat=True)[:2]) == ["redrive.cancel", "task.discard"]
    assert [caller("olga")(method, f"{OF_PLATFORM}/task-r1").status_code for method in ("GET", "DELETE")] == [403, 403]


def test_pages_go_through_all_sources(world: World, call: Caller) -> None:
    for number in range(3):
        redrive(f"a{number}")
        run(f"r{number}", "succeeded")
    seen, after = [], ""
    while True:
        answer = call("GET", f"{OF_PLATFORM}?limit=2&after={after}")
        seen += ids(answer)
        after = answer.json()["next"]
        if after is None:
            break
    assert seen == [*(f"redrive-a{number}" for number in range(3)), *(f"task-r{number}" for number in range(3))]
    assert ids(call("GET", f"{OF_PLATFORM}?after=zzz")) == [] and call("GET", f"{OF_PLATFORM}?active=x").status_code == 400


def test_a_long_change_names_its_job(world: World, caller: Callable[[str], Caller], monkeypatch: pytest.MonkeyPatch) -> None:
    olga = caller("olga")
    assert olga("PUT", "/admin/v2/persistent/acme/orders/p/partitions", 20).status_code == 204
    monkeypatch.setattr(changes, "ANSWER_S", 0)
    monkeypatch.setattr(calls, "CHANGE_S", 0)
    why = olga("DELETE", "/admin/v2/persistent/acme/orders/p/partitions?force=true").json()["reason"]
    at = f"/api/v1/{why.partition('/api/v1/')[2]}"
    eventually_sync(lambda: olga("GET", at).json()["state"] == "done")
    shown = olga("GET", at).json()
    assert (shown["kind"], shown["resource"]) == ("topics.delete", "persistent://acme/orders/p")
    assert (shown["done"], shown["total"], shown["unit"], shown["cancellable"]) == (20, 20, "partitions", False)
    assert shown["id"] in ids(olga("GET", JOBS)) and shown["id"] not in ids(olga("GET", f"{JOBS}?active=true"))
    assert olga("DELETE", at).status_code == 412 and caller("sam")("GET", at).status_code == 404


def test_what_has_not_begun_has_no_progress() -> None:
    fields: dict[str, Any] = {"change": "topics.delete", "resource": "t", "error": "", "started_ms": 1000, "ended_ms": None}
    waiting = sources.show_change(ChangeProgress(id="c", state="waiting", done=0, partitions=0, **fields), "acme")
    assert (waiting.state, waiting.done, waiting.total, waiting.ended_at) == ("waiting", None, None, None)


def test_calls_that_start_long_work_name_their_job(world: World, call: Caller) -> None:
    started = call("POST", "/api/v1/audit/verification").json()
    assert call("GET", f"{OF_PLATFORM}/{started['job']}").json()["kind"] == "workers.verify_audit"
