"""Named scenarios of a subscription: who attaches, permits, expiry, seeks, and what storage cannot give."""

from __future__ import annotations

import pytest

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.errors import ConsumerBusy, NotReady
from messaging.storage.ledger_store import Position
from tests.support.raising import boom
from tests.support.worlds.subscription_world import World, received


def test_a_second_exclusive_consumer_is_refused() -> None:
    world = World()
    world.attach(SubscriptionType.EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        world.attach(SubscriptionType.EXCLUSIVE)


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
def test_another_type_is_refused_while_consumers_are_there(kind: SubscriptionType) -> None:
    world = World()
    shared = world.attach(SubscriptionType.SHARED)
    with pytest.raises(ConsumerBusy):
        world.attach(kind)
    world.detach(shared)
    world.attach(kind)
    assert world.subscription.kind is kind


def test_no_consumer_attaches_during_a_seek() -> None:
    world = World()
    world.subscription.fenced = True
    with pytest.raises(NotReady):
        world.attach(SubscriptionType.SHARED)
    assert not world.subscription.can_dispatch()


def test_permits_count_messages_and_entries_stay_whole() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.EXCLUSIVE, permits=10)
    entries = world.publish([4, 4, 4, 4])
    assert received(consumer) == entries[:3]
    assert consumer.permits == -2
    world.flow(consumer, 2)
    assert received(consumer) == []
    world.flow(consumer, 1)
    assert received(consumer) == entries[3:]


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED, SubscriptionType.FAILOVER])
def test_acknowledged_messages_of_a_batch_take_no_permits(kind: SubscriptionType) -> None:
    """The client passes over them without asking for more: each round trip of such a batch would starve it of their number."""
    world = World()
    consumer = world.attach(kind, permits=10)
    (entry,) = world.publish([10])
    assert received(consumer) == [entry]
    assert consumer.permits == 0
    world.subscription.acknowledge_batch(consumer, entry, [0b0000000111], 0)
    world.flow(consumer, 3)
    world.nack(consumer)
    assert received(consumer) == [entry]
    assert consumer.permits == 0
    if kind is SubscriptionType.SHARED:
        assert consumer.unacked_messages == 3


def test_nothing_goes_to_a_peer_that_does_not_read() -> None:
    world = World()
    slow, quick = world.attach(SubscriptionType.SHARED, permits=100), world.attach(SubscriptionType.SHARED, permits=100)
    slow.sink.writable = False  # type: ignore[misc]
    entries = world.publish([1] * 50)
    assert received(slow) == []
    assert received(quick) == entries


def test_expired_entries_are_passed_over_and_counted() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED)
    world.publish([1] * 3)
    world.now_ms = 5_000
    fresh = world.publish([1] * 2)
    world.expired_before_ms = 2_000
    world.flow(consumer, 100)
    assert received(consumer) == fresh
    assert world.subscription.entries_expired == 3
    assert world.subscription.cursor.mark_delete == Position(1, 2)


def test_entries_that_expire_while_they_wait_to_be_sent_again() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=3)
    world.publish([1] * 3)
    received(consumer)
    world.nack(consumer)
    world.expired_before_ms = 2_000
    world.flow(consumer, 100)
    assert received(consumer) == []
    assert world.subscription.backlog_entries == 0
    assert not world.subscription.state.redeliveries.entries
    assert not world.subscription.state.redeliveries.counts


def test_markers_are_never_delivered() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.EXCLUSIVE, permits=100)
    world.publish([1], marker=True)
    entries = world.publish([1] * 2)
    assert received(consumer) == entries
    assert world.subscription.entries_expired == 0


def test_reading_goes_on_in_the_next_ledger() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    entries = world.publish([1] * 2)
    world.roll()
    world.roll()
    entries += world.publish([1] * 2)
    assert received(consumer) == entries


def test_a_seek_back_brings_everything_again() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    entries = world.publish([1] * 4)
    received(consumer)
    world.ack(consumer, *entries)
    world.subscription.reset(SeekTarget(entries[1]))
    world.dispatch()
    assert received(consumer) == entries[2:]


def test_cumulative_acknowledgement_empties_what_is_held() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    entries = world.publish([2] * 6)
    world.nack(consumer, entries[3])
    received(consumer)
    world.subscription.acknowledge_up_to(entries[4], 0)
    assert consumer.unacked_messages == 2
    world.detach(consumer)
    other = world.attach(SubscriptionType.SHARED, permits=100)
    assert received(other) == [entries[5]]
    assert not world.subscription.state.redeliveries.counts


def test_entries_that_storage_cannot_give_again_count_as_acknowledged() -> None:
    """A damaged entry on a Shared subscription held its mark-delete position, and with it retention, for ever."""
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=2)
    entries = world.publish([1] * 5)
    received(consumer)
    world.nack(consumer)
    before = world.subscription.cursor.snapshot()
    deltas = world.subscription.skip_lost(1, 2)
    assert world.subscription.entries_lost == 2
    assert world.subscription.cursor.mark_delete == Position(1, 1)
    assert not world.subscription.state.redeliveries.counts
    copy = Cursor.restore(Position(-1, -1), before)
    for delta in deltas:
        copy.apply(delta, world.ledger_list)
    assert copy.snapshot() == world.subscription.cursor.snapshot()
    world.flow(consumer, 100)
    assert received(consumer) == entries[2:]


def test_damage_met_by_a_redelivery_does_not_pass_over_what_was_never_read() -> None:
    """The entries between would have been neither sent nor acknowledged, until the next rewind."""
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=2)
    entries = world.publish([1] * 6)
    received(consumer)
    world.nack(consumer)
    assert world.subscription.skip_lost(1, 4), "one read found four entries damaged"
    due = world.subscription.next_due()
    assert due is not None and due[1] == entries[2]
    assert world.subscription.skip_lost(1, 4)
    assert world.subscription.cursor.mark_delete == entries[3] and world.subscription.entries_lost == 4
    world.flow(consumer, 100)
    assert received(consumer) == entries[4:]


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE])
def test_damage_ahead_counts_as_acknowledged_and_nothing_else_does(kind: SubscriptionType) -> None:
    world = World()
    consumer = world.attach(kind, permits=3)
    entries = world.publish([1] * 10)
    received(consumer)
    world.ack(consumer, entries[5])
    due = world.subscription.next_due()
    assert due is not None and due[1] == entries[3]
    assert len(world.subscription.skip_lost(1, 7)) == 1, "one delta, whatever was acknowledged in between"
    assert world.subscription.entries_lost == 3
    assert world.subscription.backlog_entries == 6
    world.flow(consumer, 100)
    assert received(consumer) == entries[7:]
    world.ack(consumer, *entries[:3])
    assert world.subscription.cursor.mark_delete == entries[6]


def test_damage_that_nobody_asks_for_any_more_changes_nothing() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    world.publish([1] * 3)
    received(consumer)
    for ledger_id, stop in ((1, 2), (1, 3), (2, 5), (0, 5)):
        assert world.subscription.skip_lost(ledger_id, stop) == []
    assert world.subscription.entries_lost == 0 and world.subscription.backlog_entries == 3


def test_reading_that_went_back_is_not_moved_on_by_what_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not sent may be taken back a while after it failed, if that failed, too."""
    world = World()
    consumer = world.attach(SubscriptionType.EXCLUSIVE, 10)
    first, *_ = world.publish([1, 1, 1])
    world.subscription.state.unsent.clear()
    monkeypatch.setattr(consumer.sink, "deliver", boom)
    with pytest.raises(ValueError):
        world.publish([1])
    world.subscription.redeliver(consumer, None)
    world.subscription.recover(lambda delta: None)
    assert world.subscription.next_due() == (world.subscription.state.reading, first)


def test_acknowledgements_for_no_consumer_are_stored_though_storing_the_first_raised() -> None:
    """Of several changes the others were forgotten, and came again after a restart."""
    world = World()
    world.attach(SubscriptionType.SHARED, 10)
    world.publish([1, 1, 1])
    subscription, stored = world.subscription, list[bytes]()
    deltas = [subscription.cursor.acknowledge(1, [entry], world.ledger_list) for entry in (0, 2)]
    subscription.state.unstored += deltas

    def store(delta: bytes) -> None:
        if not stored:
            stored.append(b"")
            raise ValueError("the log is closed")
        stored.append(delta)

    with pytest.raises(ValueError):
        subscription.recover(store)
    subscription.recover(store)
    assert stored[1:] == deltas
    subscription.recover(store)
    assert stored[1:] == deltas, "once"
