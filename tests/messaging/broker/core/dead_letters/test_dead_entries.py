"""Entries that a dead-letter policy sets aside: sent to nobody, and gone as soon as they are acknowledged."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.worlds.subscription_world import World, counted, received

SHARED = SubscriptionType.SHARED


class RejectingWorld(World):
    """A subscription that allows one redelivery."""

    def __init__(self) -> None:
        super().__init__()
        self.redeliveries = self.subscription.state.redeliveries
        self.redeliveries.limit_counts(1)
        self.consumer = self.attach(SHARED, permits=1_000)

    def reject(self, consumer: Consumer, *positions: Position, times: int = 1) -> None:
        for _ in range(times):
            self.nack(consumer, *positions)


def test_an_entry_redelivered_too_often_is_dead() -> None:
    world = RejectingWorld()
    positions = world.publish([1] * 5)
    world.reject(world.consumer, positions[1], positions[3], times=2)
    assert world.redeliveries.first_dead(10) == [positions[1], positions[3]]
    assert world.redeliveries.first_dead(1) == [positions[1]]
    assert world.redeliveries.dead_entries == 2
    assert world.subscription.unacked.messages == 3


@pytest.mark.parametrize("how", ["one by one", "all up to them", "by expiry"])
def test_an_acknowledged_entry_is_not_dead_any_more(how: str) -> None:
    world = RejectingWorld()
    positions = world.publish([1] * 5)
    world.reject(world.consumer, *positions[:3], times=2)
    if how == "one by one":
        world.ack(world.consumer, *positions[:2])
    elif how == "all up to them":
        world.subscription.acknowledge_up_to(positions[1], 0)
    else:
        world.redeliveries.acknowledged_range(positions[0].ledger_id, 0, 1)
    assert world.redeliveries.first_dead(10) == [positions[2]]


def test_without_a_policy_the_dead_are_sent_again_and_a_lower_limit_makes_more() -> None:
    world = RejectingWorld()
    positions = world.publish([1] * 3)
    world.reject(world.consumer, positions[0], times=2)
    received(world.consumer)
    world.redeliveries.limit_counts(None)
    world.dispatch()
    assert counted(world.consumer) == [(positions[0], 2)]
    world.detach(world.consumer)
    world.redeliveries.limit_counts(0)
    assert world.redeliveries.dead_entries == 0, "without a policy a disconnect forgets how often"


def test_counting_goes_on_over_a_disconnect_and_begins_anew_after_a_seek() -> None:
    world = RejectingWorld()
    positions = world.publish([1])
    world.reject(world.consumer, positions[0])
    world.detach(world.consumer)
    again = world.attach(SHARED, permits=10)
    assert counted(again) == [(positions[0], 1)]
    world.detach(again)
    world.subscription.reset(SeekTarget(EARLIEST))
    assert counted(world.attach(SHARED, permits=10)) == [(positions[0], 0)]


def test_a_single_reader_is_told_no_counts() -> None:
    world = RejectingWorld()
    positions = world.publish([1])
    world.reject(world.consumer, positions[0])
    world.detach(world.consumer)
    assert counted(world.attach(SubscriptionType.EXCLUSIVE, permits=10)) == [(positions[0], 0)]
