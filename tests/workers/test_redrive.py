"""Redrive jobs on a real broker: what moves, what stays and why, and that nothing moves twice whatever ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, cast

import msgspec
import pytest

from messaging.adminrpc.base import Answer, Method
from messaging.adminrpc.methods import REDRIVE_MOVE, REDRIVE_PREPARE, REDRIVE_SCAN
from messaging.adminrpc.redrive import KEY_SHOWN_MAX, RedriveEdit, RedriveFoundPage, RedriveMove, RedriveMoved, RedriveScan
from messaging.broker.core.dead_letters.redrive import REDRIVEN, TOO_OFTEN
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotReady
from messaging.permissions.model import tenant_role
from messaging.protocol.names import parse_topic
from tenants.models import Tenant
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers.alerts.models import AlertRule, MailUsage, Notice, NotificationTarget
from workers.environment import Environment
from workers.redrive import task
from workers.redrive.models import RedriveJob, RedriveOutcome
from workers.redrive.task import redrive
from workers.runs import run_recorded, steps_recorded
from workers.schedule import REDRIVE
from workers.tasks.forgetting import forget_old

pytestmark = pytest.mark.django_db
DLQ, TARGET = "persistent://acme/kept/orders-s-DLQ", "persistent://acme/kept/orders"


class Killed(BaseException):
    """Stands for kill -9: nothing of the worker runs after it."""


@pytest.fixture
def letters(broker: WorkerBroker) -> None:
    """Six dead letters of two keys and two subscriptions."""
    broker.real.add(DLQ)
    broker.real.add(TARGET)
    for number in range(6):
        properties = {"REAL_SUBSCRIPTION": "ab"[number % 2], "DEAD_LETTER_REASON": "max", "kind": "x" if number < 4 else "y"}
        broker.real.publish_messages(DLQ, OutgoingMessage(b"%d" % number, properties, key=f"k{number % 3}"))


@pytest.fixture(autouse=True)
def tenant(db: None) -> None:
    Tenant.unscoped.create(name="acme", uid="u1", admin_roles=[], allowed_clusters=[])


def test_a_job_of_a_former_tenant_moves_nothing(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None
) -> None:
    job(clock)
    RedriveJob.unscoped.update(tenant_uid="of the former one")
    run(environment)
    assert RedriveJob.unscoped.get().state == "failed" and payloads(broker) == []


def job(clock: Clock, owner: str = tenant_role("acme"), **fields: Any) -> RedriveJob:
    values: dict[str, Any] = {"topic": DLQ, "target": TARGET, "subscription": "redrive", "filter": {}, **fields}
    return RedriveJob.unscoped.create(
        id="j1", idempotency_key="once", tenant="acme", tenant_uid="u1", owner=owner, requested_by="x", created_at=clock(), **values
    )


def run(environment: Environment, task_id: str = "r1") -> dict[str, Any]:
    return run_recorded(environment, REDRIVE, task_id, redrive, job="j1")


def moved(broker: WorkerBroker, topic: str = TARGET) -> Iterator[tuple[bytes, dict[str, str], str]]:
    """Payload, properties and key of every message of the target."""

    async def read() -> list[Any]:
        loaded = await broker.real.service.topics.get(parse_topic(topic), create=False)
        positions = [loaded.ledger_list.at_index(index) for index in range(loaded.ledger_list.entries)]
        return [await loaded.entries.entry_at(position) for position in positions]

    for stored in broker.real.run(read()):
        metadata = stored.metadata
        yield stored.payload, {pair.key: pair.value for pair in metadata.properties}, metadata.partition_key


def payloads(broker: WorkerBroker, topic: str = TARGET) -> list[bytes]:
    return [payload for payload, _, _ in moved(broker, topic)]


def test_everything_goes_back_as_it_came_and_is_acknowledged(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None
) -> None:
    job(clock)
    assert run(environment)["state"] == "done"
    messages = list(moved(broker))
    assert [(payload, key) for payload, _, key in messages] == [(b"%d" % number, f"k{number % 3}") for number in range(6)]
    assert messages[0][1] == {"kind": "x", REDRIVEN: "1"}
    redriven = RedriveJob.unscoped.get()
    assert (redriven.state, redriven.moved, redriven.left, redriven.looked_at) == ("done", 6, 0, 6)
    assert RedriveOutcome.objects.filter(why="").count() == 6
    RedriveJob.unscoped.update(state="running", ledger_id=-1, entry_id=0)
    assert run(environment, "r2")["moved"] == 0 and len(payloads(broker)) == 6  # its subscription remembers


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"key": "k1"}, [b"1", b"4"]),
        ({"property_name": "kind", "property_value": "y"}, [b"4", b"5"]),
        ({"origin_subscription": "b", "property_name": "kind", "property_value": "x"}, [b"1", b"3"]),
        ({"until_ms": 1}, []),
        ({"from_ms": 1}, [b"0", b"1", b"2", b"3", b"4", b"5"]),
    ],
)
def test_only_what_matches_moves_and_the_rest_stays(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, wanted: dict[str, Any], expected: list[bytes]
) -> None:
    job(clock, filter=wanted)
    run(environment)
    assert payloads(broker) == expected
    topic = broker.real.service.topics.loaded[DLQ]
    assert topic.subscriptions.table["redrive"].backlog_entries == 6 - len(expected)


def test_a_message_that_was_redriven_too_often_stays(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.real.add(DLQ)
    broker.real.add(TARGET)
    for times in ("2", "3", "not a number"):
        broker.real.publish_messages(DLQ, OutgoingMessage(times.encode(), {REDRIVEN: times}))
    job(clock, filter={"redriven_max": 3})
    run(environment)
    assert payloads(broker) == [b"2", b"not a number"]
    assert [outcome.why for outcome in RedriveOutcome.objects.all()] == ["", TOO_OFTEN, ""]


@pytest.mark.parametrize("killed_before_the_answer", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_worker_killed_at_any_step_moves_nothing_twice(
    environment: Environment,
    broker: WorkerBroker,
    clock: Clock,
    letters: None,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    killed_before_the_answer: bool,
) -> None:
    monkeypatch.setattr(task, "MOVE_ENTRIES", 2)
    job(clock)
    calls = 0

    def kill(request: RedriveMove) -> RedriveMoved | None:
        nonlocal calls
        calls += 1
        if calls == step:
            if not killed_before_the_answer:
                broker.real.perform(REDRIVE_MOVE, request)  # done, and nobody was told
            raise Killed
        return None

    broker.divert(REDRIVE_MOVE, kill)
    with pytest.raises(Killed):
        run(environment)
    broker.mend()
    clock.advance(3600)
    broker.real.restart()  # the broker as well, for what it remembers to be what is stored
    assert run(environment)["state"] == "done"
    assert payloads(broker) == [b"%d" % number for number in range(6)]
    assert RedriveJob.unscoped.get().moved == 6 and RedriveOutcome.objects.count() == 6


def test_a_job_that_is_paused_stops_and_goes_on_where_it_stood(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MOVE_ENTRIES", 2)
    job(clock)

    def pause(_: object) -> None:
        RedriveJob.unscoped.update(state="paused")

    broker.divert(REDRIVE_MOVE, pause)
    assert run(environment) == {"outcome": "succeeded", "moved": 2, "state": "paused"}
    broker.mend()
    RedriveJob.unscoped.update(state="running")
    assert run(environment, "r2")["moved"] == 4
    assert payloads(broker) == [b"%d" % number for number in range(6)]


def test_a_broker_that_is_away_is_tried_again_and_a_refusal_is_not(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None
) -> None:
    job(clock)
    broker.cut()
    assert run(environment)["outcome"] == "retrying"
    assert RedriveJob.unscoped.get().state == "running"
    broker.mend()
    RedriveJob.unscoped.update(owner="stranger@other")
    assert "failed" in run(environment)
    redriven = RedriveJob.unscoped.get()
    assert (redriven.state, redriven.moved) == ("failed", 0) and redriven.error
    assert payloads(broker) == []
    assert NotReady.code not in redriven.error


def test_a_subscription_with_consumers_is_left_to_them(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.real.add(DLQ, "busy")
    broker.real.add(TARGET)
    broker.real.publish(DLQ, b"dead")
    broker.real.connect_consumer(DLQ, "busy")
    job(clock, subscription="busy")
    run(environment)
    assert "has consumers" in RedriveJob.unscoped.get().error
    assert payloads(broker) == []


def test_a_rate_is_kept_step_by_step(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(environment.stopping, "wait", lambda seconds: waited.append(seconds))
    job(clock, rate=2, filter={"origin_subscription": "b"})
    run(environment)
    sizes = [len(request.positions) for method, request in broker.calls if method == "redrive.move"]
    assert (sizes, waited, RedriveJob.unscoped.get().looked_at) == ([2, 1], [task.PACE_S], 6)  # what was passed over, too


def test_a_slow_job_gives_its_thread_back_after_each_step(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MOVE_ENTRIES", 1)
    job(clock, rate=1_000_000)
    steps = steps_recorded(environment, REDRIVE, "r1", redrive, job="j1")
    assert next(steps) == task.PACE_S and len(payloads(broker)) == 1
    assert run(environment, "r2")["outcome"] == "skipped", "it is still its own"
    assert list(steps) == [task.PACE_S] * 4
    assert len(payloads(broker)) == 6 and RedriveJob.unscoped.get().state == "done"


def test_a_tenant_keeps_its_newest_outcomes(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MOVE_ENTRIES", 2)
    monkeypatch.setattr(task, "OUTCOMES_OF_TENANT_MAX", 3)
    job(clock)
    run(environment)
    assert list(RedriveOutcome.objects.values_list("entry_id", flat=True)) == [3, 4, 5]
    assert RedriveJob.unscoped.get().moved == 6


def test_a_long_key_is_kept_in_part(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.real.add(DLQ)
    broker.real.add(TARGET)
    broker.real.publish_messages(DLQ, OutgoingMessage(b"x", {}, key="k" * 8192))
    job(clock)
    run(environment)
    assert len(RedriveOutcome.objects.get().key) == KEY_SHOWN_MAX + 1
    assert [key for _, _, key in moved(broker)] == ["k" * 8192], "the message has all of it"


def test_old_redrives_and_all_of_a_former_tenant_are_forgotten(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None
) -> None:
    job(clock)
    run(environment)
    days = environment.settings.task_history_days
    RedriveJob.unscoped.update(created_at=clock() - timedelta(days=days - 1))
    assert forget_old(environment, "f1", lambda: None)["redrives"] == 0
    RedriveJob.unscoped.update(created_at=clock() - timedelta(days=days + 1), state="paused")
    assert forget_old(environment, "f2", lambda: None)["redrives"] == 0, "it is not finished"
    RedriveJob.unscoped.update(state="done")
    assert forget_old(environment, "f3", lambda: None)["redrives"] == 1 and not RedriveOutcome.objects.exists()

    of_tenant = {"tenant": "acme", "tenant_uid": "u1"}
    job(clock)
    AlertRule.unscoped.create(name="r", kind="no_consumer", topic=DLQ, created_at=clock(), **of_tenant)
    NotificationTarget.unscoped.create(**of_tenant)
    Notice.unscoped.create(subject="s", kind="k", title="t", text="t", at=clock(), **of_tenant)
    MailUsage.unscoped.create(day=clock().date(), **of_tenant)
    Notice.unscoped.create(subject="s", kind="k", title="t", text="t", at=clock(), tenant="", tenant_uid="")
    assert forget_old(environment, "f4", lambda: None)["of_former_tenants"] == 0
    Tenant.unscoped.update(uid="of another of its name")
    assert forget_old(environment, "f5", lambda: None)["of_former_tenants"] == 5
    assert not RedriveJob.unscoped.exists() and Notice.unscoped.get().tenant_uid == "", "that of the platform stays"


def test_a_job_that_comes_on_is_not_given_up_for_the_restarts_that_it_meets(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was quarantined after five restarts of the broker, however many days lay between them."""
    monkeypatch.setattr(task, "MOVE_ENTRIES", 1)
    job(clock)
    calls = 0
    call = environment.rpc.call

    def restarting(method: Any, request: Any) -> Any:
        """The broker is away when a step was done and the next one begins."""
        nonlocal calls
        calls += method == REDRIVE_MOVE
        if calls == 2:
            calls = 0
            raise NotReady("the broker is away")
        return call(method, request)

    monkeypatch.setattr(environment.rpc, "call", restarting)
    outcomes: list[str] = []
    while not outcomes or outcomes[-1] == "retrying":
        outcomes.append(run(environment)["outcome"])
        clock.advance(3600)
    assert outcomes.count("retrying") >= 5 and outcomes[-1] == "succeeded"
    assert RedriveJob.unscoped.get().state == "done"
    assert payloads(broker) == [b"%d" % number for number in range(6)]


def test_a_job_waits_for_a_broker_however_long_it_is_away(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute and a half it was quarantined, and shown as running all the while."""
    job(clock)
    call = environment.rpc.call
    monkeypatch.setattr(environment.rpc, "call", lambda method, request: (_ for _ in ()).throw(NotReady("the broker is away")))
    for _ in range(2 * environment.settings.task_attempts_max):
        assert run(environment)["outcome"] == "retrying"
        redriven = RedriveJob.unscoped.get()
        assert (redriven.state, redriven.error) == ("running", "the broker is away")
        clock.advance(60)
    monkeypatch.setattr(environment.rpc, "call", call)
    assert run(environment)["outcome"] == "succeeded"
    redriven = RedriveJob.unscoped.get()
    assert (redriven.state, redriven.error) == ("done", "")
    assert payloads(broker) == [b"%d" % number for number in range(6)]


def test_a_tenant_that_was_created_anew_keeps_its_messages(
    environment: Environment, broker: WorkerBroker, clock: Clock, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job looks for its tenant when its turn begins, and the tenant may go in the middle of it."""
    job(clock)
    RedriveJob.unscoped.update(tenant_uid="u0")
    Tenant.unscoped.update(uid="u0")  # as the worker knows it; the broker has the new one
    run(environment)
    redriven = RedriveJob.unscoped.get()
    assert redriven.state == "failed" and "is another" in redriven.error
    assert payloads(broker) == []


# --- each to where it came from


ORIGINS = {"a": "persistent://acme/kept/orders", "b": "persistent://acme/kept/bills"}


def of_two_origins(broker: WorkerBroker, *further: dict[str, str]) -> None:
    for topic in (DLQ, *ORIGINS.values()):
        broker.real.add(topic)
    for number in range(6):
        properties = {"REAL_TOPIC": ORIGINS["ab"[number % 2]], "DEAD_LETTER_REASON": "ab"[number % 2]}
        broker.real.publish_messages(DLQ, OutgoingMessage(b"%d" % number, properties, key=f"k{number}"))
    for properties in further:
        broker.real.publish_messages(DLQ, OutgoingMessage(b"x", properties))


def test_without_a_target_each_goes_where_it_came_from_and_the_outcome_says_where(
    environment: Environment, broker: WorkerBroker, clock: Clock
) -> None:
    elsewhere = {"REAL_TOPIC": "persistent://acme/orders/t"}
    of_two_origins(broker, {}, elsewhere, {"REAL_TOPIC": DLQ}, {"REAL_TOPIC": "persistent://acme/kept/gone-partition-9"})
    job(clock, target="")
    assert run(environment)["state"] == "done"
    assert payloads(broker, ORIGINS["a"]) == [b"0", b"2", b"4"] and payloads(broker, ORIGINS["b"]) == [b"1", b"3", b"5"]
    outcomes = [(each.target, each.why) for each in RedriveOutcome.objects.all()]
    assert outcomes[:6] == [(ORIGINS["ab"[number % 2]], "") for number in range(6)]
    why = [reason for target, reason in outcomes[6:] if not target]
    assert why[:3] == [
        "it does not say which topic it came from",
        "it came from another namespace, acme/orders",
        "it says that it came from this topic",
    ]
    stayed = RedriveJob.unscoped.get()
    assert (stayed.moved + stayed.left, stayed.left) == (10, len(why))


@pytest.mark.parametrize("step", range(1, 7))
def test_a_worker_killed_between_two_destinations_moves_nothing_twice(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    of_two_origins(broker)
    monkeypatch.setattr(task, "MOVE_ENTRIES", 2)
    job(clock, target="")
    calls = 0

    def kill(request: RedriveMove) -> RedriveMoved | None:
        nonlocal calls
        calls += 1
        if calls == step:
            broker.real.perform(REDRIVE_MOVE, request)  # done, and nobody was told
            raise Killed
        return None

    broker.divert(REDRIVE_MOVE, kill)
    with pytest.raises(Killed):
        run(environment)
    broker.mend()
    clock.advance(3600)
    broker.real.restart()
    assert run(environment)["state"] == "done"
    assert payloads(broker, ORIGINS["a"]) == [b"0", b"2", b"4"] and payloads(broker, ORIGINS["b"]) == [b"1", b"3", b"5"]
    assert RedriveOutcome.objects.exclude(target="").count() == 6


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_killed_and_when_each_letter_has_one_place_and_one_outcome(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nor is a job that comes on given up, however often its worker dies. `make way-back` does so with processes."""
    chance, origins = Random(seed), [*ORIGINS.values(), "persistent://acme/kept/stock", "persistent://other/kept/orders"]
    for topic in (DLQ, *origins[:3]):
        broker.real.add(topic)
    came_from = [chance.choice(origins) for _ in range(100)]
    for number, origin in enumerate(came_from):
        broker.real.publish_messages(DLQ, OutgoingMessage(b"%d" % number, {"REAL_TOPIC": origin}))
    monkeypatch.setattr(task, "MOVE_ENTRIES", 7)
    job(clock, target="")
    kills = 0

    def done(method: Method[Any, Any], request: Any) -> Answer:
        nonlocal kills
        before, after = chance.random() < 0.04, chance.random() < 0.04
        kills += before or after
        answer: Answer | None = None if before else broker.real.perform(method, request)
        if answer is None or after:  # or it was done, and nobody was told
            raise Killed
        return answer

    for method in (REDRIVE_SCAN, REDRIVE_PREPARE, REDRIVE_MOVE):
        broker.divert(cast(Any, method), partial(done, method))
    while RedriveJob.unscoped.get().state != "done":
        try:
            assert run(environment).get("state") == "done", "it was given up"
        except Killed:
            clock.advance(3600)
            if chance.random() < 0.3:
                broker.real.restart()
    assert kills > environment.settings.task_attempts_max
    for topic in origins[:3]:
        assert payloads(broker, topic) == [b"%d" % number for number, origin in enumerate(came_from) if origin == topic]
    assert list(RedriveOutcome.objects.order_by("ledger_id", "entry_id").values_list("target", flat=True)) == [
        origin if origin != origins[3] else "" for origin in came_from
    ]
    assert RedriveJob.unscoped.get().left == came_from.count(origins[3])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [({"origin_topic": ORIGINS["b"]}, [b"1", b"3", b"5"]), ({"reason": "a"}, [b"0", b"2", b"4"]), ({"producer": "nobody"}, [])],
)
def test_what_became_a_dead_letter_for_another_reason_stays(
    environment: Environment, broker: WorkerBroker, clock: Clock, wanted: dict[str, Any], expected: list[bytes]
) -> None:
    of_two_origins(broker)
    broker.real.add("persistent://acme/kept/all")
    job(clock, filter=wanted, target="persistent://acme/kept/all")
    run(environment)
    assert payloads(broker, "persistent://acme/kept/all") == expected


def test_only_the_messages_that_were_chosen_move(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    of_two_origins(broker)
    page = scanned(broker)
    chosen = [[entry.ledger_id, entry.entry_id] for entry in page.found if entry.key in ("k1", "k4")]
    job(clock, target="", filter={"positions": [*chosen, [10**6, 0]]})
    run(environment)
    assert payloads(broker, ORIGINS["a"]) == [b"4"] and payloads(broker, ORIGINS["b"]) == [b"1"]
    assert RedriveOutcome.objects.count() == 2


def test_a_message_goes_back_as_it_was_edited_once(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    of_two_origins(broker)
    (entry,) = [entry for entry in scanned(broker).found if entry.key == "k2"]
    edit = RedriveEdit(edited_payload=b"mended", key="other", properties={"kind": "y", "DEAD_LETTER_REASON": "kept"})
    job(clock, target="", filter={"positions": [[entry.ledger_id, entry.entry_id]]}, edit=msgspec.to_builtins(edit))

    def lost(request: RedriveMove) -> RedriveMoved | None:
        broker.real.perform(REDRIVE_MOVE, request)
        raise Killed

    broker.divert(REDRIVE_MOVE, lost)
    with pytest.raises(Killed):
        run(environment)
    broker.mend()
    clock.advance(3600)
    assert run(environment)["state"] == "done"
    assert list(moved(broker, ORIGINS["a"])) == [(b"mended", {"kind": "y", REDRIVEN: "1"}, "other")]
    assert RedriveJob.unscoped.get().edit == {}, "what it says is not kept beyond the message"


def scanned(broker: WorkerBroker) -> RedriveFoundPage:
    asked = RedriveScan(topic=DLQ, subscription="redrive", owner=tenant_role("acme"), ledger_id=-1, entry_id=0)
    return broker.real.perform(REDRIVE_SCAN, asked)
