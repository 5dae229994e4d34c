"""Redrives over our API: who may start one, what the same key names, and that another tenant sees and does nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.adminrpc.methods import SUBSCRIPTIONS_LIST
from messaging.adminrpc.topics import TopicRef
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World
from workers.models import TaskRun
from workers.redrive import actions
from workers.redrive.models import RedriveJob
from workers.schedule import REDRIVE

AT = "/api/v1/tenants/acme/namespaces/orders/topics/dead/redrives"
DEAD, TARGET = "persistent://acme/orders/dead", "persistent://acme/orders/t"


@pytest.fixture(autouse=True)
def letters(world: World) -> None:
    world.broker.add(DEAD)
    world.broker.add(TARGET)
    world.broker.publish(DEAD, b"1", b"2", b"3")


def body(**fields: Any) -> dict[str, Any]:
    return {"target": TARGET, **fields}


def test_an_owner_looks_starts_pauses_resumes_and_cancels(world: World, caller: Any) -> None:
    owner = caller("olga")
    dry = owner("POST", f"{AT}/dry-run", body())
    assert dry.status_code == 200, dry.content
    assert (dry.json()["messages"], dry.json()["complete"], len(dry.json()["samples"])) == (3, True, 3)
    started = owner("POST", AT, body(rate=10, idempotency_key="monday"))
    assert started.status_code == 201, started.content
    job = started.json()["id"]
    assert owner("POST", AT, body(rate=10, idempotency_key="monday")).json()["id"] == job
    assert owner("POST", AT, body(key="k", idempotency_key="monday")).status_code == 409
    assert RedriveJob.unscoped.count() == 1 and TaskRun.objects.get().arguments == {"job": job}
    answers = [owner("POST", f"{AT}/{job}/{decision}").status_code for decision in ("resume", "pause", "pause", "resume")]
    assert answers == [412, 200, 412, 200]
    assert owner("DELETE", f"{AT}/{job}").json()["state"] == "cancelled"
    assert owner("GET", f"{AT}/{job}").json()["subscription"] == "redrive"
    assert owner("GET", f"{AT}/{job}/outcomes").json() == {"items": [], "next": None}
    assert owner("GET", f"{AT}/{job}/outcomes?after=x").status_code == 400
    actions = set(AuditRecord.unscoped.filter(action__startswith="redrive.").values_list("action", "tenant"))
    assert actions == {(f"redrive.{one}", "acme") for one in ("start", "pause", "resume", "cancel")}


def test_spaces_at_the_ends_of_a_key_or_a_property_are_part_of_it(call: Caller) -> None:
    """They were left out, so that no message had the key."""
    job = call("POST", AT, body(key=" k ", property_name="p ", property_value=" ", subscription=" s ")).json()
    assert job["subscription"] == "s"
    assert {name: job["filter"][name] for name in ("key", "property_name", "property_value")} == {
        "key": " k ",
        "property_name": "p ",
        "property_value": " ",
    }


def test_a_dry_run_changes_nothing(world: World, call: Caller) -> None:
    before = world.broker.call(SUBSCRIPTIONS_LIST, TopicRef(topic=DEAD))
    assert call("POST", f"{AT}/dry-run", body(subscription="new")).json()["messages"] == 3
    assert world.broker.call(SUBSCRIPTIONS_LIST, TopicRef(topic=DEAD)) == before


def test_a_dry_run_answers_in_time_with_what_it_has(world: World, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "DRY_RUN_S", 0)
    world.broker.publish(DEAD, *[b"x"] * 600)
    answer = call("POST", f"{AT}/dry-run", body(key="nobody's")).json()
    assert (answer["looked_at"], answer["complete"]) == (500, False)


def test_a_redrive_and_a_requeue_say_what_was_before_and_after(world: World, call: Caller) -> None:
    """In the audit log."""
    job = call("POST", AT, body(rate=7)).json()["id"]
    for decision in ("pause", "resume"):
        assert call("POST", f"{AT}/{job}/{decision}").status_code == 200
    TaskRun.objects.create(task_id="r1", name=REDRIVE, started_at=datetime.now(UTC), outcome="quarantined")
    assert call("POST", "/api/v1/task-runs/r1/requeue").status_code == 200
    found = {one.action: one for one in AuditRecord.unscoped.filter(role="admin")}
    start, resume, again = (found[name] for name in ("redrive.start", "redrive.resume", "task.requeue"))
    assert (start.tenant, start.resource, start.before) == ("acme", DEAD, None)
    assert start.after is not None and (start.after["job"], start.after["rate"], start.after["target"]) == (job, 7, TARGET)
    assert (resume.tenant, resume.resource, resume.before, resume.after) == (
        "acme", DEAD, {"job": job, "state": "paused"}, {"state": "running"},
    )  # fmt: skip
    assert (again.resource, again.before, again.after) == (
        f"task {REDRIVE} r1", {"outcome": "quarantined"}, {"outcome": "queued"},
    )  # fmt: skip


def test_another_tenant_neither_sees_a_redrive_nor_takes_messages(world: World, caller: Any) -> None:
    job = caller("olga")("POST", AT, body()).json()["id"]
    stranger = caller("sam")
    for method, path in (
        ("GET", AT),
        ("POST", AT),
        ("GET", f"{AT}/{job}"),
        ("POST", f"{AT}/{job}/pause"),
        ("DELETE", f"{AT}/{job}"),
    ):
        assert stranger(method, path, body() if method == "POST" else None).status_code == 404
    theirs = "/api/v1/tenants/other/namespaces/things/topics/dead/redrives"
    assert stranger("GET", f"{theirs}/{job}").status_code == 404  # the id alone opens nothing
    assert stranger("POST", theirs, body()).status_code == 404  # they may not produce to acme
    assert caller("tom")("POST", AT, body()).status_code == 403  # a member administers nothing


def test_a_target_of_another_tenant_needs_a_key_that_may_produce_there(world: World, caller: Any) -> None:
    abroad = body(target="persistent://other/things/t")
    assert caller("olga")("POST", AT, abroad).status_code == 404
    assert Caller(world.token("app@acme"))("POST", AT, abroad).status_code == 404  # it does not administer acme


@pytest.mark.parametrize(
    "wrong",
    [{"target": "dead"}, {"target": DEAD}, {"target": "non-persistent://acme/orders/t"}, {"rate": -1}, {"subscription": ""}],
)
def test_what_makes_no_sense_is_refused(caller: Any, wrong: dict[str, Any]) -> None:
    assert caller("olga")("POST", AT, {**body(), **wrong}).status_code == 400
    assert not RedriveJob.unscoped.exists()
