"""Named scenarios of Key_Shared subscriptions."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import key_shared, known_hashes
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode, KeySharedSettings
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.errors import ConsumerAssign, ConsumerBusy
from messaging.storage.ledger_store import Position
from tests.support.worlds.subscription_world import World, counted, received

KEY_SHARED = SubscriptionType.KEY_SHARED
LOW, HIGH = KeySharedMode(sticky=True, ranges=((0, 32767),)), KeySharedMode(sticky=True, ranges=((32768, 65535),))
LOW_KEYS, HIGH_KEYS = ("key1", "key2", "k1"), ("key-0", "key01", "key02")  # by the half in which their hashes are
HASH_RANGES = KeySharedSettings(consistent_hashing=False)


class Pair(NamedTuple):
    world: World
    low: Consumer
    high: Consumer


def sticky_pair(low: int = 100, high: int = 100) -> Pair:
    world = World()
    return Pair(world, world.attach(KEY_SHARED, low, key_shared=LOW), world.attach(KEY_SHARED, high, key_shared=HIGH))


def strategy(world: World) -> KeySharedDispatch:
    strategy = world.subscription.strategy
    assert isinstance(strategy, KeySharedDispatch)
    return strategy


def test_each_key_goes_to_its_consumer_in_order() -> None:
    world, low, high = sticky_pair()
    keys = ["key1", "key-0", "key2", "key1", "key01", "k1", "key-0"]
    entries = world.publish_keyed(keys)
    assert received(low) == [entry for entry, key in zip(entries, keys, strict=True) if key in LOW_KEYS]
    assert received(high) == [entry for entry, key in zip(entries, keys, strict=True) if key in HIGH_KEYS]
    assert (low.unacked_messages, low.permits, low.messages_out) == (4, 96, 4)


def test_a_block_is_asked_for_its_entries_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for the id of each entry, and for the index of both ends of each range."""
    asked: Counter[str] = Counter()

    def count(name: str) -> None:
        real = getattr(EntryBlock, name)

        def counted_call(block: EntryBlock, given: object) -> object:
            asked[name] += 1
            return real(block, given)

        monkeypatch.setattr(EntryBlock, name, counted_call)

    for name in ("entry_at", "index_of", "entries_at", "spans_of"):
        count(name)
    world, low, high = sticky_pair(low=200, high=1)
    world.publish_keyed(["key1", "key-0"] * 200)
    assert (low.messages_out, high.messages_out) == (200, 1)
    assert asked == {"spans_of": 1, "entries_at": 3}, "two deliveries, and what was set aside"
    asked.clear()
    world.flow(high, 100)
    assert high.messages_out == 101
    assert asked["spans_of"] == 1 and asked["entry_at"] + asked["index_of"] <= 2, "where it stopped"


def test_a_slow_consumer_holds_up_its_keys_alone() -> None:
    world, low, high = sticky_pair(low=1)
    entries = world.publish_keyed(["key1", "key-0"] * 10)
    assert received(low) == entries[:1]
    assert received(high) == entries[1::2]
    world.flow(low, 3)
    assert received(low) == entries[2:8:2]
    more = world.publish_keyed(["key1", "key2"])
    world.flow(low, 100)
    assert received(low) == entries[8::2] + more


def test_no_more_is_set_aside_than_the_look_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_shared, "LOOK_AHEAD_PER_CONSUMER", 5)
    world, low, high = sticky_pair(low=0)
    entries = world.publish_keyed(["key1", "key-0"] * 20)
    assert received(high) == entries[1:20:2]
    assert len(strategy(world).waiting) == 10
    assert world.subscription.read_position == entries[20]
    assert not world.subscription.can_dispatch()
    world.flow(low, 1)
    assert (received(low), received(high)) == (entries[:1], entries[21:22])
    world.flow(low, 100)
    assert (received(low), received(high)) == (entries[2::2], entries[23::2])


def test_entries_set_aside_count_for_every_consumer_and_have_an_end() -> None:
    world = World()
    low = world.attach(KEY_SHARED, 0, key_shared=LOW)
    others = [world.attach(KEY_SHARED, 1, key_shared=KeySharedMode(True, False, ((at, at),))) for at in range(40000, 40011)]
    world.publish_keyed(["key1"] * 30_000)
    assert len(strategy(world).waiting) == key_shared.LOOK_AHEAD_MAX
    assert received(low) == []
    assert len(others) * key_shared.LOOK_AHEAD_PER_CONSUMER > key_shared.LOOK_AHEAD_MAX


def test_redeliveries_go_first_to_the_same_consumer_and_are_counted() -> None:
    world, low, high = sticky_pair(low=4)
    entries = world.publish_keyed(["key1", "key2"] * 5)
    assert received(low) == entries[:4]
    world.nack(low, entries[1])
    world.flow(low, 2)
    assert counted(low) == [(entries[1], 1), (entries[4], 0)]
    world.nack(low)
    world.flow(low, 100)
    assert counted(low)[:2] == [(entries[0], 1), (entries[1], 2)]
    assert received(high) == []


def test_a_key_changes_hands_when_nothing_of_it_is_held() -> None:
    world = World(key_shared=HASH_RANGES)
    former = world.attach(KEY_SHARED, 100, name="former")
    entries = world.publish_keyed(["key1", "key2", "key-0"])
    assert received(former) == entries
    newcomer = world.attach(KEY_SHARED, 100, name="newcomer")  # it gets the lower half: key1 and key2
    more = world.publish_keyed(["key1", "key2", "key-0", "k1"])
    assert received(former) == [more[2]]
    assert received(newcomer) == [more[3]]
    draining = strategy(world).draining.of(former)
    assert [(slot, draining_slot.unacked, draining_slot.blocked) for slot, draining_slot in draining.items()] == [
        (293, 1, 1),
        (14772, 1, 1),
    ]
    world.ack(former, entries[0])
    assert received(newcomer) == [more[0]]
    assert list(strategy(world).draining.slots) == [14772]
    world.ack(newcomer, entries[1])  # anybody may acknowledge it
    assert received(newcomer) == [more[1]]
    assert strategy(world).draining.cleared == {former: 2}


def test_held_entries_are_looked_through_in_slices_when_a_consumer_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is acknowledged meanwhile counts no more, whether it was looked at or not; another that joins begins it anew."""
    monkeypatch.setattr(key_shared, "SETTLED_MAX", 3)
    world = World(key_shared=HASH_RANGES)
    subscription = world.subscription
    former = world.attach(KEY_SHARED, 100, name="former")
    entries = world.publish_keyed(["key1"] * 8 + ["key-0"] * 2)
    received(former)
    newcomer = world.attach(KEY_SHARED, name="newcomer")
    assert not subscription.can_dispatch() and subscription.unsettled
    assert [slot.unacked for slot in strategy(world).draining.slots.values()] == [3]
    for entry in (entries[0], entries[6]):
        subscription.acknowledge(former, entry.ledger_id, (entry.entry_id,), 0)
    another = world.attach(KEY_SHARED, name="another")
    subscription.acknowledge(former, entries[1].ledger_id, (entries[1].entry_id,), 0)
    turns = 0
    while subscription.unsettled or not turns:
        subscription.can_dispatch()
        turns += 1
    assert turns >= 2
    (slot,) = strategy(world).draining.of(former).values()
    assert slot.unacked == 5
    more = world.publish_keyed(["key1", "key-0"])
    world.flow(newcomer, 100)
    world.flow(another, 100)
    assert received(newcomer) + received(another) == []
    assert received(former) == more[1:]
    world.ack(former, *(entries[number] for number in (2, 3, 4, 5, 7)))
    assert received(newcomer) + received(another) == more[:1]
    assert not strategy(world).draining.slots and strategy(world).draining.cleared == {former: 1}


def test_entries_that_a_former_owner_lets_go_of_are_looked_through_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_shared, "SETTLED_MAX", 3)
    world = World(key_shared=HASH_RANGES)
    former = world.attach(KEY_SHARED, 8, name="former")
    entries = world.publish_keyed(["key1"] * 8)
    assert received(former) == entries
    newcomer = world.attach(KEY_SHARED, 100, name="newcomer")
    world.subscription.redeliver(former, None)
    assert not world.subscription.can_dispatch() and world.subscription.unsettled
    assert [slot.unacked for slot in strategy(world).draining.slots.values()] == [5]
    world.dispatch()
    assert received(newcomer) == entries


def test_a_key_that_comes_back_to_its_former_consumer_is_not_held_up() -> None:
    world = World(key_shared=HASH_RANGES)
    former = world.attach(KEY_SHARED, 100)
    entries = world.publish_keyed(["key1", "key1"])
    newcomer = world.attach(KEY_SHARED, 100)
    more = world.publish_keyed(["key1"])
    assert (received(former), received(newcomer)) == (entries, [])
    world.detach(newcomer)
    assert received(former) == more
    assert not strategy(world).draining.slots


def test_entries_of_a_consumer_that_left_go_to_the_next_in_order() -> None:
    world = World(key_shared=HASH_RANGES)
    former, other = world.attach(KEY_SHARED, 2), world.attach(KEY_SHARED, 0)
    keys = ["key-0", "key01", "key-0", "key01"]  # all of the upper half
    entries = world.publish_keyed(keys)
    assert received(former) == entries[:2]
    world.ack(former, entries[1])
    world.detach(former)
    world.flow(other, 100)
    assert counted(other) == [(entries[0], 0), (entries[2], 0), (entries[3], 0)]


def test_a_nacked_key_that_changes_hands_goes_to_its_new_owner_in_order() -> None:
    world = World(key_shared=HASH_RANGES)
    former = world.attach(KEY_SHARED, 100)
    entries = world.publish_keyed(["key1", "key1"])
    newcomer = world.attach(KEY_SHARED, 100)
    more = world.publish_keyed(["key1"])
    received(former)
    world.nack(former, entries[0])
    assert received(newcomer) == []
    world.nack(former, entries[1])
    assert counted(newcomer) == [(entries[0], 1), (entries[1], 1), (more[0], 0)]


def test_out_of_order_delivery_does_not_wait_for_the_former_consumer() -> None:
    world = World(key_shared=HASH_RANGES)
    mode = KeySharedMode(out_of_order=True)
    former = world.attach(KEY_SHARED, 100, key_shared=mode)
    entries = world.publish_keyed(["key1"])
    newcomer = world.attach(KEY_SHARED, 100, key_shared=mode)
    more = world.publish_keyed(["key1"])
    assert (received(former), received(newcomer)) == (entries, more)


def test_messages_of_hashes_that_nobody_named_wait() -> None:
    world = World()
    low = world.attach(KEY_SHARED, 100, key_shared=LOW)
    entries = world.publish_keyed(["key1", "key-0", "key2"])
    assert received(low) == [entries[0], entries[2]]
    high = world.attach(KEY_SHARED, 100, key_shared=HIGH)
    world.dispatch()
    assert received(high) == [entries[1]]


def test_batches_stay_whole_and_take_permits_for_what_is_left_of_them() -> None:
    world, low, high = sticky_pair(low=5)
    entries = world.publish_keyed(["key1", "key-0", "key1", "key1"], size=4)
    assert received(low) == [entries[0], entries[2]]
    assert (low.permits, low.unacked_messages) == (-3, 8)
    assert received(high) == [entries[1]]
    world.subscription.acknowledge_batch(low, entries[0], [0b1000], 0)
    world.nack(low, entries[0])
    world.flow(low, 4)
    assert counted(low) == [(entries[0], 1)]
    assert (low.permits, low.unacked_messages) == (0, 5)


def test_all_consumers_together_may_hold_so_many() -> None:
    world = World(unacked_of_all_max=4)
    low, high = world.attach(KEY_SHARED, 100, key_shared=LOW), world.attach(KEY_SHARED, 100, key_shared=HIGH)
    entries = world.publish_keyed(["key1", "key-0"] * 10)
    assert received(low) + received(high) == [*entries[:4:2], *entries[1:4:2]]
    world.ack(low, entries[0], entries[2])
    assert received(low) + received(high) == [entries[4], entries[5]]


@pytest.mark.parametrize("mode", [LOW, KeySharedMode(out_of_order=True), KeySharedMode(True, True, ((0, 1),))])
def test_consumers_have_to_agree(mode: KeySharedMode) -> None:
    world = World()
    world.attach(KEY_SHARED)
    with pytest.raises(ConsumerBusy):
        world.attach(KEY_SHARED, key_shared=mode)
    assert len(world.subscription.consumers) == 1


def test_ranges_that_are_taken_are_refused_also_for_the_first_consumer() -> None:
    world = World()
    with pytest.raises(ConsumerAssign):
        world.attach(KEY_SHARED, key_shared=KeySharedMode(sticky=True))
    low = world.attach(KEY_SHARED, key_shared=LOW)
    with pytest.raises(ConsumerAssign):
        world.attach(KEY_SHARED, key_shared=KeySharedMode(True, False, ((32767, 40000),)))
    world.detach(low)
    world.attach(KEY_SHARED)  # without consumers there is no mode


def test_another_type_takes_over_from_the_beginning_and_back() -> None:
    world, *_ = sticky_pair(low=0)
    entries = world.publish_keyed(["key1", "key-0", "key1"])
    for consumer in list(world.subscription.consumers):
        world.detach(consumer)
    shared = world.attach(SubscriptionType.SHARED, 100)
    assert received(shared) == entries
    world.nack(shared, entries[1])
    world.detach(shared)
    again = world.attach(KEY_SHARED, 100, key_shared=LOW)
    assert received(again) == [entries[0], entries[2]]


def test_entries_that_expire_while_they_wait() -> None:
    world, low, high = sticky_pair(low=0)
    world.publish_keyed(["key1", "key-0"])
    assert world.subscription.state.redeliveries.entries
    world.expired_before_ms = 2_000
    world.flow(low, 10)
    assert (received(low), world.subscription.entries_expired) == ([], 1)
    assert not world.subscription.state.redeliveries.entries
    world.ack(high, *received(high))
    assert world.subscription.backlog_entries == 0


def test_hashes_are_forgotten_with_their_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_hashes, "PRUNE_AT", 100)
    world, low, high = sticky_pair(low=100_000, high=1)
    kept: list[Position] = []
    for _ in range(60):
        kept += world.publish_keyed(["key-0", *["key1"] * 499])[:1]
        world.ack(low, *received(low))
    assert strategy(world).memory_bytes < 60 * 2_000 / 2  # all of the hashes are twice as much
    assert received(high) == kept[:1]
    world.detach(low)  # what waits is given to its owners anew, by its hashes
    world.flow(high, 100)
    assert received(high) == kept[1:]
    world.detach(high)
    assert strategy(world).memory_bytes == 0


def test_a_position_beyond_the_ledger_is_no_harm() -> None:
    world, low, _ = sticky_pair()
    entries = world.publish_keyed(["key1"])
    received(low)
    world.nack(low, Position(99, 1), Position(1, 1 << 40))
    world.ack(low, *entries)
    assert received(low) == []
