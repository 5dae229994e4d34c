"""What the broker does with redrives that nobody should ask for: foreign positions and targets, targets that are gone or full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from messaging.adminrpc.methods import (
    REDRIVE_MOVE,
    REDRIVE_PREPARE,
    REDRIVE_SCAN,
    SUBSCRIPTIONS_CREATE,
    TOPICS_DELETE,
    TOPICS_STATS,
)
from messaging.adminrpc.redrive import RedriveMove, RedriveMoved, RedrivePrepare, RedriveScan
from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import StatsAsked, TopicDelete
from messaging.errors import InvalidValue, MagnetarError, NotAllowed, NotAuthorized, NotFound, TopicNotFound
from messaging.permissions.model import tenant_role
from tests.support.brokers.memory_broker import MemoryBroker

LETTERS, TARGET = "persistent://acme/kept/letters", "persistent://acme/kept/target"
FULL, CLOSED = "persistent://acme/full/target", "persistent://acme/closed/target"
THEIRS, THEIR_TARGET = "persistent://globex/kept/letters", "persistent://globex/kept/target"
ACME, GLOBEX = tenant_role("acme"), tenant_role("globex")
FULL_POLICIES = {"backlog_quota_bytes": 1, "backlog_quota_bytes_policy": "producer_exception"}


NAMESPACES: dict[str, dict[str, Any]] = {
    "acme/kept": {}, "acme/full": {}, "acme/closed": {"auto_topic_creation": False}, "globex/kept": {},
}  # fmt: skip
TOLD: dict[tuple[str, str], dict[str, Any]] = {
    ("tenant", "acme"): {"uid": "u1"},
    ("tenant", "globex"): {"uid": "u2"},
    **{("namespace", name): {"policies": policies} for name, policies in NAMESPACES.items()},
}


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    memory_broker = MemoryBroker(identity="worker")
    try:
        memory_broker.tell(1, TOLD)
        for topic in (LETTERS, THEIRS, TARGET, THEIR_TARGET):
            memory_broker.add(topic)
        memory_broker.publish(LETTERS, b"1", b"2", b"3")
        memory_broker.publish(THEIRS, b"secret")
        yield memory_broker
    finally:
        memory_broker.stop()


def found(broker: MemoryBroker, topic: str = LETTERS, owner: str = ACME) -> list[list[int]]:
    page = broker.call(
        REDRIVE_SCAN,
        RedriveScan(topic=topic, subscription="redrive", owner=owner, ledger_id=-1, entry_id=0, make_subscription=True),
    )
    return [[entry.ledger_id, entry.entry_id] for entry in page.found]


def move(broker: MemoryBroker, positions: list[list[int]], **fields: Any) -> RedriveMoved:
    asked: dict[str, Any] = {
        "job": "j1", "step": 1, "topic": LETTERS, "subscription": "redrive", "owner": ACME, "target": TARGET, "ledger_id": -1,
        "entry_id": -1,
    }  # fmt: skip
    return broker.call(REDRIVE_MOVE, RedriveMove(positions=positions, **(asked | fields)))


def stats(broker: MemoryBroker, topic: str) -> dict[str, Any]:
    with broker.called_by("web"):
        return dict(broker.call(TOPICS_STATS, StatsAsked(topic=topic)).stats)


def stored(broker: MemoryBroker, topic: str) -> int:
    return int(stats(broker, topic)["msgInCounter"])


def left(broker: MemoryBroker, topic: str = LETTERS) -> int:
    return int(stats(broker, topic)["subscriptions"]["redrive"]["msgBacklog"])


def test_positions_of_another_topic_move_nothing(broker: MemoryBroker) -> None:
    theirs = found(broker, THEIRS, GLOBEX)
    assert len(theirs) == 1
    moved = move(broker, theirs)
    assert (moved.messages, moved.gone) == (0, theirs)
    assert stored(broker, TARGET) == 0 and left(broker, THEIRS) == 1 and left(broker) == 3


@pytest.mark.parametrize(
    "positions",
    [[[1]], [[]], [[1, 2, 3]], [[-5, 0]], [[0, -5]], [[2**63, 0]], [[0, 2**63 - 1]], [[2**62, 2**62]], [[0, 0]] * 1_001],
)
def test_positions_that_are_none_change_nothing(broker: MemoryBroker, positions: list[list[int]]) -> None:
    found(broker)
    try:
        assert move(broker, positions).messages == 0
    except MagnetarError as error:
        assert isinstance(error, InvalidValue), error
    assert stored(broker, TARGET) == 0 and left(broker) == 3
    assert move(broker, found(broker)).messages == 3


def test_a_position_that_is_named_twice_is_refused(broker: MemoryBroker) -> None:
    first = found(broker)[0]
    with pytest.raises(InvalidValue, match="twice"):
        move(broker, [first, first])
    assert stored(broker, TARGET) == 0 and left(broker) == 3


def test_a_tenant_that_is_stopped_publishes_nothing_by_a_redrive(broker: MemoryBroker) -> None:
    """What was moved before counts as moved."""
    first, *others = found(broker)
    assert move(broker, [first]).messages == 1
    broker.tell(2, {**TOLD, ("tenant", "acme"): {"uid": "u1", "spend": {"stopped": "spend cap of 50.00 EUR"}}})
    assert move(broker, [first]).already
    with pytest.raises(NotAllowed, match="spend cap of 50"):
        move(broker, others, step=2)
    assert stored(broker, TARGET) == 1 and left(broker) == 2
    broker.tell(3, TOLD)
    assert move(broker, others, step=2).messages == 2


@pytest.mark.parametrize("step", [-1, 2**31, 2**63 - 1])
def test_steps_that_are_none_are_refused(broker: MemoryBroker, step: int) -> None:
    with pytest.raises(InvalidValue):
        move(broker, found(broker), step=step)
    assert stored(broker, TARGET) == 0


@pytest.mark.parametrize("job", ["", "\n", "x" * 64, "../../etc", "j1\x00", "☃"])
def test_an_odd_job_moves_its_own_messages_and_no_others(broker: MemoryBroker, job: str) -> None:
    positions = found(broker)
    try:
        moved = move(broker, positions[:1], job=job)
    except MagnetarError as error:
        assert isinstance(error, InvalidValue), error
        return
    assert moved.messages == 1 and move(broker, positions[:1], job=job).already
    assert not move(broker, positions[1:], step=1).already  # of job j1
    assert stored(broker, TARGET) == 3


def test_an_owner_moves_nothing_to_or_from_another_tenant(broker: MemoryBroker) -> None:
    positions, theirs = found(broker), found(broker, THEIRS, GLOBEX)
    for asked in (
        {"target": THEIR_TARGET},
        {"topic": THEIRS, "positions": theirs},
        {"topic": THEIRS, "target": THEIR_TARGET, "positions": theirs},
        {"owner": GLOBEX},
        {"owner": ""},
        {"owner": "acme"},
    ):
        with pytest.raises(NotAuthorized):
            move(broker, **({"positions": positions} | asked))
    for target, owner in ((THEIR_TARGET, ACME), (TARGET, GLOBEX), (TARGET, "")):
        with pytest.raises(NotAuthorized):
            broker.call(REDRIVE_PREPARE, RedrivePrepare(target=target, owner=owner, step=1))
    assert stored(broker, TARGET) == stored(broker, THEIR_TARGET) == 0 and left(broker) == 3 and left(broker, THEIRS) == 1


def test_a_role_that_may_not_consume_leaves_no_subscription_behind(broker: MemoryBroker) -> None:
    with pytest.raises(NotAuthorized):
        found(broker, THEIRS, ACME)
    assert stats(broker, THEIRS)["subscriptions"] == {}


def test_a_target_that_was_deleted_keeps_the_messages_where_they_are(broker: MemoryBroker) -> None:
    broker.add(CLOSED)
    positions = found(broker)
    prepared = broker.call(REDRIVE_PREPARE, RedrivePrepare(target=CLOSED, owner=ACME, step=1))
    with broker.called_by("web"):
        broker.call(TOPICS_DELETE, TopicDelete(topic=CLOSED, force=True))
    behind = {"ledger_id": prepared.ledger_id, "entry_id": prepared.entry_id}
    with pytest.raises((NotFound, TopicNotFound)):
        move(broker, positions, target=CLOSED, **behind)
    assert left(broker) == 3
    broker.add(CLOSED)  # another topic of that name: where the step was to be looked for is not in it
    assert move(broker, positions, target=CLOSED, **behind).messages == 3
    assert stored(broker, CLOSED) == 3 and left(broker) == 0
    assert move(broker, positions, target=CLOSED, **behind).already


def test_a_full_target_keeps_the_messages_where_they_are_and_takes_them_once_later(broker: MemoryBroker) -> None:
    broker.add(FULL)
    with broker.called_by("web"):
        broker.call(SUBSCRIPTIONS_CREATE, SubscriptionCreate(topic=FULL, subscription="s", ledger_id=-1, entry_id=-1))
    positions = found(broker)
    assert move(broker, positions[:1], target=FULL).messages == 1
    broker.tell(2, {**broker.state, ("namespace", "acme/full"): {"policies": FULL_POLICIES}})  # now it has more than its quota
    with pytest.raises(MagnetarError) as refused:
        move(broker, positions[1:], target=FULL, step=2)
    assert not isinstance(refused.value, NotAuthorized | InvalidValue)
    assert stored(broker, FULL) == 1 and left(broker) == 2
    broker.tell(3, {**broker.state, ("namespace", "acme/full"): {"policies": {}}})
    for _ in range(2):
        move(broker, positions[1:], target=FULL, step=2)
    assert stored(broker, FULL) == 3 and left(broker) == 0


def test_a_job_of_a_former_tenant_finds_and_moves_nothing_of_the_new_one(broker: MemoryBroker) -> None:
    positions = found(broker)
    asked: dict[str, Any] = {"topic": LETTERS, "subscription": "redrive", "owner": ACME, "ledger_id": -1, "entry_id": 0}
    with pytest.raises(NotFound, match="is another"):
        broker.call(REDRIVE_SCAN, RedriveScan(tenant_uid="u0", **asked))
    with pytest.raises(NotFound, match="is another"):
        move(broker, positions, tenant_uid="u0")
    assert stored(broker, TARGET) == 0 and left(broker) == 3
    assert move(broker, positions, tenant_uid="u1").messages == 3
