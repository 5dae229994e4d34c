"""Moving subscriptions: who may, what is said before, what is done, and what takes it back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from messaging.adminrpc.subscriptions import AcksBefore, SubscriptionMoved
from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound, PreconditionFailed, SubscriptionNotFound
from messaging.protocol.names import parse_topic
from tenants.access import Actor, NotVisible
from tenants.actions import cursor_moves
from tenants.actions.change import record
from tenants.actions.recorded_places import place_of_text, recorded_places
from tests.tenants.world import World

TOPIC = parse_topic("persistent://acme/orders/t")
PARTITIONED = parse_topic("persistent://acme/orders/p")
Move = Callable[[Actor, bool], SubscriptionMoved]
MOVES: dict[str, Move] = {
    "skip": lambda actor, dry_run: cursor_moves.skip(actor, TOPIC, "s", 3, dry_run=dry_run),
    "clear_backlog": lambda actor, dry_run: cursor_moves.clear_backlog(actor, TOPIC, "s", dry_run=dry_run),
    "expire": lambda actor, dry_run: cursor_moves.expire(actor, TOPIC, "s", 60, dry_run=dry_run),
    "reset_to": lambda actor, dry_run: cursor_moves.reset_to(actor, TOPIC, "s", "latest", dry_run=dry_run),
    "reset_to_time": lambda actor, dry_run: cursor_moves.reset_to_time(actor, TOPIC, "s", 2**50 // 100, dry_run=dry_run),
    "replay": lambda actor, dry_run: cursor_moves.replay(actor, TOPIC, "s", 1, 2**50 // 100, dry_run=dry_run),
    "delete_subscription": lambda actor, dry_run: cursor_moves.delete_subscription(actor, TOPIC, "s", dry_run=dry_run),
}


@pytest.fixture
def ready(world: World) -> World:
    """Five entries that the subscription has not acknowledged."""
    world.broker.add(str(TOPIC), "s")
    world.broker.publish(str(TOPIC), *(b"%d" % number for number in range(5)))
    world.broker.ahead_s = 3600
    return world


def now() -> datetime:
    return datetime.now(UTC)


def moved(world: World, action: str, answer: SubscriptionMoved, topic: object = TOPIC) -> None:
    """The record that the request leaves (`controlplane.audit`)."""
    trail = world.actor("olga").trail
    trail.before = {name: before for name, (before, _) in answer.moved.items()}
    record(world.actor("olga"), action, "acme", f"{topic}/s", trail.before, {})


def test_the_owner_may_a_viewer_may_not_a_stranger_sees_nothing(ready: World) -> None:
    others: dict[str, Move] = {
        **MOVES,
        "undo": lambda actor, dry_run: cursor_moves.undo(actor, TOPIC, "s", 1, now(), dry_run=dry_run),
    }
    ready.line.calls.clear()
    for act in others.values():
        for dry_run in (True, False):
            with pytest.raises(NotVisible):
                act(ready.actor("sam"), dry_run)
            with pytest.raises(NotAuthorized):
                act(ready.actor("tom"), dry_run)
    assert not ready.line.calls


@pytest.mark.parametrize("name", MOVES)
def test_a_dry_run_says_what_is_done_and_does_nothing(ready: World, name: str) -> None:
    before = ready.broker.mark_delete(str(TOPIC), "s")
    told = MOVES[name](ready.actor("olga"), True)
    assert ready.broker.mark_delete(str(TOPIC), "s") == before
    assert told.backlog_entries == 5 and told.skipped_entries == {"skip": 3, "replay": 0}.get(name, 5)
    done = MOVES[name](ready.actor("olga"), False)
    assert done == told
    if name != "delete_subscription":
        assert ready.broker.backlog(str(TOPIC)) == 5 - told.skipped_entries


def test_going_back_counts_what_comes_again(ready: World) -> None:
    olga = ready.actor("olga")
    cursor_moves.skip(olga, TOPIC, "s", 4)
    told = cursor_moves.reset_to(olga, TOPIC, "s", "earliest", dry_run=True)
    assert (told.backlog_entries, told.skipped_entries, told.again_entries) == (1, 0, 4)
    assert cursor_moves.reset_to(olga, TOPIC, "s", "earliest") == told
    assert ready.broker.backlog(str(TOPIC)) == 5


def test_what_was_acknowledged_out_of_order_comes_again(ready: World) -> None:
    loaded = ready.broker.run(ready.broker.service.topics.get(TOPIC, create=False))
    ready.broker.acknowledge(str(TOPIC), "s", 1, 3)
    first = f"{loaded.ledger_list.last_id}:1"
    told = cursor_moves.reset_to(ready.actor("olga"), TOPIC, "s", first, dry_run=True)
    assert (told.backlog_entries, told.skipped_entries, told.again_entries) == (3, 1, 2)


def test_connected_consumers_are_counted(ready: World) -> None:
    ready.broker.connect_consumer(str(TOPIC), "s")
    assert cursor_moves.reset_to(ready.actor("olga"), TOPIC, "s", "earliest", dry_run=True).consumers == 1


def test_a_partitioned_topic_is_moved_as_a_whole(world: World) -> None:
    olga = world.actor("olga")
    world.broker.add_partitioned(str(PARTITIONED), 2, "s")
    for index in range(2):
        world.broker.publish(str(PARTITIONED.of_partition(index)), b"x")
    assert cursor_moves.clear_backlog(olga, PARTITIONED, "s", dry_run=True).skipped_entries == 2
    with pytest.raises(InvalidValue, match="one of its partitions"):
        cursor_moves.skip(olga, PARTITIONED, "s", 1)
    with pytest.raises(InvalidValue, match="ledger:entry:partition"):
        cursor_moves.reset_to(olga, PARTITIONED, "s", "0:0")
    moved(world, "subscription.clear_backlog", cursor_moves.clear_backlog(olga, PARTITIONED, "s"), PARTITIONED)
    (recorded,) = cursor_moves.recorded_moves(olga, PARTITIONED, "s", now())
    assert cursor_moves.undo(olga, PARTITIONED, "s", recorded.record_id, now()).again_entries == 2
    assert world.broker.backlog(str(PARTITIONED.of_partition(1))) == 1


def test_a_move_is_undone(ready: World) -> None:
    olga = ready.actor("olga")
    stood = ready.broker.mark_delete(str(TOPIC), "s")
    moved(ready, "subscription.clear_backlog", cursor_moves.clear_backlog(olga, TOPIC, "s"))
    (recorded,) = cursor_moves.recorded_moves(olga, TOPIC, "s", now())
    told = cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now(), dry_run=True)
    assert told.again_entries == 5 and ready.broker.backlog(str(TOPIC)) == 0
    assert cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now()) == told
    assert ready.broker.mark_delete(str(TOPIC), "s") == stood
    assert olga.trail.before and olga.trail.after


def test_a_deleted_subscription_comes_back_where_it_stood(ready: World) -> None:
    olga = ready.actor("olga")
    cursor_moves.skip(olga, TOPIC, "s", 2)
    stood = ready.broker.mark_delete(str(TOPIC), "s")
    moved(ready, "subscription.delete", cursor_moves.delete_subscription(olga, TOPIC, "s"))
    (recorded,) = cursor_moves.recorded_moves(olga, TOPIC, "s", now())
    told = cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now(), dry_run=True)
    assert told.backlog_entries == 3 and told.moved == {str(TOPIC): ("", stood)}
    assert cursor_moves.recorded_moves(olga, TOPIC, "s", now()) == [recorded]
    cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now())
    assert ready.broker.mark_delete(str(TOPIC), "s") == stood and ready.broker.backlog(str(TOPIC)) == 3
    with pytest.raises(Conflict, match="exists again"):
        cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now(), dry_run=True)


@pytest.mark.parametrize("name", ["clear_backlog", "reset_to", "delete_subscription"])
def test_an_undo_puts_back_what_was_acknowledged_one_by_one(ready: World, name: str) -> None:
    olga = ready.actor("olga")
    ready.broker.acknowledge(str(TOPIC), "s", 1, 3, 4)
    answer = MOVES[name](olga, False)
    ledger_id = ready.broker.run(ready.broker.service.topics.get(TOPIC, create=False)).ledger_list.last_id
    places = recorded_places(answer)
    assert places == {str(TOPIC): f"-1:-1 and {ledger_id}:1,3-4"}
    record(olga, f"subscription.{name.removesuffix('_to').removesuffix('_subscription')}", "acme", f"{TOPIC}/s", places, {})
    (recorded,) = cursor_moves.recorded_moves(olga, TOPIC, "s", now())
    told = cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now(), dry_run=True)
    assert told.again_entries == (0 if name == "delete_subscription" else 2)
    done = cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now())
    assert done == told and ready.broker.backlog(str(TOPIC)) == 2
    ready.broker.restart()
    assert ready.broker.backlog(str(TOPIC)) == 2, "it is stored"


def test_of_more_than_there_is_room_for_it_is_known_how_much_is_not_kept(ready: World) -> None:
    acks = AcksBefore(ranges="12:1,3", entries=2, left_out=5)
    many = {f"{PARTITIONED}-partition-{index}": ("1:1", "2:2") for index in range(99)}
    answer = SubscriptionMoved(moved=many, acknowledged=dict.fromkeys(many, acks))
    places = recorded_places(answer)
    record(ready.actor("olga"), "subscription.reset", "acme", f"{PARTITIONED}/s", places, {})
    few = recorded_places(SubscriptionMoved(moved={"t": ("1:1", "")}, acknowledged={"t": acks}))
    assert few == {"t": "1:1 and 12:1,3 and 5 more"}
    assert set(places.values()) <= {"1:1 and 12:1,3 and 5 more", "1:1 and 7 more"}
    large = AcksBefore(ranges=",".join(["12:1", *map(str, range(3, 1001, 2))])[:2000].rpartition(",")[0], entries=400)
    two = recorded_places(SubscriptionMoved(moved={"a": ("1:1", ""), "b": ("1:1", "")}, acknowledged={"a": large, "b": large}))
    assert place_of_text(two["a"]) == (1, 1, large.ranges, 0) and place_of_text(two["b"]) == (1, 1, "", 400)


def test_what_cannot_be_undone_says_so(ready: World) -> None:
    olga = ready.actor("olga")
    with pytest.raises(NotFound, match="24 hours"):
        cursor_moves.undo(olga, TOPIC, "s", 999, now())
    many = {f"{PARTITIONED}-partition-{index}": "1:1" for index in range(100)}
    record(olga, "subscription.reset", "acme", f"{TOPIC}/s", many, {})
    record(olga, "subscription.peek", "acme", f"{TOPIC}/s", {str(TOPIC): "1:1"}, {})
    (recorded,) = cursor_moves.recorded_moves(olga, TOPIC, "s", now())
    with pytest.raises(PreconditionFailed, match="reset the subscription to a time"):
        cursor_moves.undo(olga, TOPIC, "s", recorded.record_id, now())
    assert cursor_moves.recorded_moves(olga, TOPIC, "s", now() + timedelta(hours=25)) == []


def test_a_subscription_that_is_not_there(ready: World) -> None:
    with pytest.raises(SubscriptionNotFound):
        cursor_moves.clear_backlog(ready.actor("olga"), TOPIC, "other", dry_run=True)
    with pytest.raises(InvalidValue, match="no message id"):
        cursor_moves.reset_to(ready.actor("olga"), TOPIC, "s", "yesterday")
