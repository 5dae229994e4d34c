"""Decide, encode, then change: whatever a method of a cursor or a subscription is given, it raises and has changed nothing, or what
it returns, repeated on the former state, makes the new one, and can be packed.

Seen: a cumulative acknowledgement of entry 2^64-1 moved the mark-delete position, and then `struct.pack` raised for ever."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.broker.core.bitmaps import bitmap_of
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors import cursor_deltas as cursor_deltas
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.examples import examples
from tests.support.worlds.subscription_world import World

EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70]
NUMBERS = st.one_of(st.integers(-3, 60), st.sampled_from(EDGES), st.sampled_from([-edge for edge in EDGES]))
POSITIONS = st.builds(Position, st.one_of(st.integers(2, 9), NUMBERS), NUMBERS)
ENTRIES = st.lists(NUMBERS, max_size=12)
WORDS = st.lists(st.one_of(NUMBERS, st.integers(0, 2**64 - 1)), max_size=4)

# Every method that changes a cursor, and what to call it with.
CURSOR: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "acknowledge": st.tuples(st.one_of(st.integers(2, 9), NUMBERS), ENTRIES),
    "acknowledge_range": st.tuples(st.one_of(st.integers(2, 9), NUMBERS), NUMBERS, NUMBERS),
    "acknowledge_all": st.tuples(NUMBERS, ENTRIES.map(bitmap_of)),
    "acknowledge_up_to": st.tuples(POSITIONS),
    "acknowledge_batch": st.tuples(POSITIONS, WORDS),
    "reset": st.tuples(POSITIONS),
    "apply": st.tuples(
        st.one_of(st.binary(max_size=40), st.builds(lambda kind, body: bytes((kind,)) + body, st.integers(1, 5), st.binary()))
    ),
}
READING = {
    "acknowledged",
    "acknowledged_outside",
    "backlog_entries",
    "backlog_up_to",
    "individual_ranges",
    "unacked_count",
    "unacked_ranges",
    "snapshot",
    "restore",
    "memory_bytes",
}
CALLS = st.lists(
    st.sampled_from(sorted(CURSOR)).flatmap(lambda name: st.tuples(st.just(name), CURSOR[name])), min_size=1, max_size=15
)


def state_of(cursor: Cursor) -> tuple[Any, ...]:
    individual_acks = {ledger_id: bitmap.to_array().tolist() for ledger_id, bitmap in cursor.individual_acks.items()}
    return (
        cursor.mark_delete,
        individual_acks,
        cursor.individual_ack_count,
        dict(cursor.batches.items()),
        cursor.batches.memory_bytes,
    )


def copy_of(cursor: Cursor) -> Cursor:
    return Cursor.restore(EARLIEST, cursor.snapshot())


def test_every_method_of_a_cursor_is_in_the_table() -> None:
    public = {name for name, _ in inspect.getmembers(Cursor) if not name.startswith("_")}
    slots = {"batches", "individual_ack_count", "individual_acks", "mark_delete"}
    assert public == CURSOR.keys() | READING | slots


@settings(max_examples=examples(400))
@given(CALLS)
def test_a_cursor_raises_and_stays_or_its_delta_makes_the_new_state(calls: list[tuple[str, tuple[Any, ...]]]) -> None:
    ledger_list = LedgerList([(3, 40), (5, -1), (6, 40), (8, 12)])
    cursor = Cursor()
    for name, arguments in calls:
        former = copy_of(cursor)
        assert state_of(former) == state_of(cursor), "a snapshot is the whole state"
        try:
            result = getattr(cursor, name)(*arguments, ledger_list)
        except Exception:
            assert state_of(cursor) == state_of(former), f"{name}{arguments} raised half-way"
            continue
        if name == "apply":
            continue
        delta = result[0] if name == "acknowledge_batch" else result
        if delta:
            former.apply(delta, ledger_list)
        assert state_of(cursor) == state_of(former), f"{name}{arguments} and its delta differ"
        assert cursor.individual_ack_count == sum(map(len, cursor.individual_acks.values()))
        assert cursor.mark_delete == EARLIEST or ledger_list.holds(cursor.mark_delete)


@pytest.mark.parametrize("position", [Position(8, 2**64 - 1), Position(2**64 - 1, 2**64 - 1), Position(1, 2**64 - 1), EARLIEST])
@pytest.mark.parametrize("method", ["acknowledge_up_to", "acknowledge_batch", "acknowledge", "acknowledge_range"])
def test_numbers_that_no_entry_has_acknowledge_nothing(position: Position, method: str) -> None:
    ledger_list = LedgerList([(3, 40), (8, 12)])
    cursor = Cursor()
    calls: dict[str, Callable[[], Any]] = {
        "acknowledge_up_to": lambda: cursor.acknowledge_up_to(position, ledger_list),
        "acknowledge_batch": lambda: cursor.acknowledge_batch(position, [0], ledger_list)[0],
        "acknowledge": lambda: cursor.acknowledge(position.ledger_id, [position.entry_id], ledger_list),
        "acknowledge_range": lambda: cursor.acknowledge_range(
            position.ledger_id, position.entry_id, position.entry_id, ledger_list
        ),
    }
    assert calls[method]() == b""
    assert state_of(cursor) == state_of(Cursor())


@pytest.mark.parametrize("position", [Position(8, 2**64 - 1), Position(2**64 - 1, 5), Position(-7, 2**64), Position(5, 3)])
def test_a_seek_to_what_does_not_exist_goes_to_the_entry_before_it(position: Position) -> None:
    ledger_list = LedgerList([(3, 40), (8, 12)])
    cursor = Cursor()
    cursor.reset(position, ledger_list)
    assert cursor.mark_delete == (
        EARLIEST if position.ledger_id < 3 else Position(3, 40) if position.ledger_id == 5 else Position(8, 12)
    )
    assert copy_of(cursor).mark_delete == cursor.mark_delete


# Every method of a subscription that stores something.
SUBSCRIPTION: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "acknowledge": st.tuples(st.sampled_from([1, 2, 2**64 - 1, -1]), ENTRIES, st.just(7)),
    "acknowledge_batch": st.tuples(st.builds(Position, st.integers(0, 3), NUMBERS), WORDS, st.just(7)),
    "acknowledge_up_to": st.tuples(st.builds(Position, st.integers(0, 3), NUMBERS), st.just(7)),
    "redeliver": st.tuples(st.one_of(st.none(), st.lists(st.builds(Position, st.integers(0, 3), NUMBERS), max_size=5))),
    "reset": st.tuples(st.builds(Position, st.integers(-1, 3), NUMBERS)),
    "pass_over_lost": st.tuples(st.sampled_from([0, 1, 2, 2**64]), NUMBERS),
}
BY_CONSUMER = {"acknowledge", "acknowledge_batch", "redeliver"}
SUBSCRIPTION_CALL = st.sampled_from(sorted(SUBSCRIPTION)).flatmap(lambda name: st.tuples(st.just(name), SUBSCRIPTION[name]))


def whole_state(subscription: Subscription) -> tuple[Any, ...]:
    held_entries = [
        (consumer.unacked_messages, {key: list(bitmap) for key, bitmap in consumer.held.items()}, dict(consumer.held_batches))
        for consumer in subscription.consumers
    ]
    redeliveries = subscription.state.redeliveries
    again = {key: list(bitmap) for key, bitmap in redeliveries.entries.items()}
    counts = {key: redeliveries.counts.of_each(key, range(10)) for key in range(4)}
    return state_of(subscription.cursor), subscription.read_position, held_entries, again, counts


@settings(max_examples=examples(300))
@given(st.lists(SUBSCRIPTION_CALL, min_size=1, max_size=12), st.sampled_from([SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE]))
def test_a_subscription_raises_and_stays_or_its_deltas_make_the_new_state(
    calls: list[tuple[str, tuple[Any, ...]]], kind: SubscriptionType
) -> None:
    world = World()
    consumer = world.attach(kind, permits=20)
    world.publish([1] * 10 + [70] * 3)
    world.roll()
    world.publish([2] * 10)
    subscription = world.subscription
    for name, arguments in calls:
        former, before = copy_of(subscription.cursor), whole_state(subscription)
        given: tuple[Consumer, ...] = (consumer,) if name in BY_CONSUMER else ()
        try:
            result = getattr(subscription, name)(*given, *arguments)
        except Exception:
            assert whole_state(subscription) == before, f"{name}{arguments} raised half-way"
            continue
        for delta in result if isinstance(result, list) else [result or b""]:
            if delta:
                former.apply(delta, world.ledger_list)
        assert state_of(subscription.cursor) == state_of(former), f"{name}{arguments} and its deltas differ"
        assert consumer.unacked_messages >= 0
        world.dispatch()


@pytest.mark.parametrize("size", range(0, 60))
def test_a_delta_of_a_wrong_length_is_refused_whole(size: int) -> None:
    ledger_list = LedgerList([(1, 9)])
    cursor = Cursor()
    wholes = {
        cursor_deltas.Delta.RANGE: 24,
        cursor_deltas.Delta.UP_TO: 16,
        cursor_deltas.Delta.RESET: 16,
    }
    for kind, whole in wholes.items():
        if size != whole:
            with pytest.raises(ValueError):
                cursor.apply(bytes((kind,)) + b"\0" * size, ledger_list)
    if size < 8 or size % 4:
        with pytest.raises(ValueError):
            cursor.apply(bytes((cursor_deltas.Delta.ENTRIES,)) + b"\0" * size, ledger_list)
    if size < 16 or size % 8:
        with pytest.raises(ValueError):
            cursor.apply(bytes((cursor_deltas.Delta.BATCH,)) + b"\0" * size, ledger_list)
    assert state_of(cursor) == state_of(Cursor())
