"""What is durable and withheld, as by an open transaction, is not sent; what is before it is."""

from __future__ import annotations

import pytest

from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.subscription_world import World, counted, received

KINDS = [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER, SubscriptionType.SHARED]


@pytest.mark.parametrize("kind", KINDS)
def test_dispatch_stops_in_the_middle_of_a_block_and_goes_on_from_there(kind: SubscriptionType) -> None:
    world = World()
    world.ledger_list.withheld_from = Position(1, 3)
    consumer = world.attach(kind, 100)
    entries = world.publish([1] * 5)
    assert received(consumer) == entries[:3]
    assert world.subscription.next_due() is None
    assert world.subscription.backlog_entries == 5
    world.ledger_list.withheld_from = Position(1, 4)
    world.dispatch()
    assert received(consumer) == entries[3:4]
    world.ledger_list.withheld_from = None
    world.dispatch()
    assert received(consumer) == entries[4:]


@pytest.mark.parametrize("kind", KINDS)
def test_later_ledgers_wait_too(kind: SubscriptionType) -> None:
    world = World()
    world.ledger_list.withheld_from = Position(1, 1)
    consumer = world.attach(kind, 100)
    first = world.publish([1, 1])
    world.roll()
    second = world.publish([1])
    assert received(consumer) == first[:1]
    world.ledger_list.withheld_from = Position(2, 0)
    world.dispatch()
    assert received(consumer) == first[1:]
    world.ledger_list.withheld_from = None
    world.dispatch()
    assert received(consumer) == second


@pytest.mark.parametrize("kind", KINDS)
def test_entries_sent_before_are_sent_again(kind: SubscriptionType) -> None:
    world = World()
    consumer = world.attach(kind, 100)
    sent = world.publish([1, 1])
    world.ledger_list.withheld_from = Position(1, 2)
    world.publish([1])
    assert received(consumer) == sent
    world.nack(consumer, *sent)
    assert [position for position, _ in counted(consumer)] == sent
