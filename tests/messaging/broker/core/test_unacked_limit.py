"""The bound on unacknowledged messages is a Shared consumer's; it must never hold up the single reader of the other types."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.managed.ledger_list import LedgerList

BATCH = 100
UNACKED_MAX = 1_000


class Sink:
    writable = True

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        return 0

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None: ...


def entries_of_batches(count: int) -> EntryBlock:
    return EntryBlock(7, 0, b"x" * count, range(1, count + 1), 1, count * BATCH, counts=[BATCH] * count)


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
def test_acknowledged_batches_never_block_a_single_reader(kind: SubscriptionType) -> None:
    count = 50  # five times the bound in messages, all acknowledged as they come
    ledger_list = LedgerList([(7, count - 1)])
    subscription = Subscription("s", Cursor(), ledger_list, unacked_max=UNACKED_MAX)
    consumer = Consumer(1, "c", Sink())
    subscription.attach(consumer, kind)
    block = entries_of_batches(count)
    received = 0
    for _ in range(count):
        consumer.permits = BATCH
        due = subscription.next_due()
        assert due is not None, f"nothing to read after {received} of {count} entries"
        assert subscription.can_dispatch()
        for delivery in subscription.assign(due[0], block, due[1], block.last_entry, 0, 0).deliveries:
            assert subscription.unacked_of(consumer) == 1
            for index in range(delivery.first, delivery.last):
                subscription.acknowledge(consumer, 7, [block.first_entry + index], 0)
                received += 1
    assert received == count
    assert subscription.unacked_of(consumer) == 0
    assert subscription.backlog_entries == 0


def test_a_shared_consumer_is_held_at_the_bound_and_goes_on_when_it_acknowledges() -> None:
    ledger_list = LedgerList([(7, 49)])
    subscription = Subscription("s", Cursor(), ledger_list, unacked_max=UNACKED_MAX)
    consumer = Consumer(1, "c", Sink())
    subscription.attach(consumer, SubscriptionType.SHARED)
    consumer.permits = 1_000_000
    block = entries_of_batches(50)
    due = subscription.next_due()
    assert due is not None
    first = subscription.assign(due[0], block, due[1], block.last_entry, 0, 0)
    assert sum(delivery.last - delivery.first for delivery in first.deliveries) == UNACKED_MAX // BATCH
    assert subscription.blocked
    assert not subscription.can_dispatch()
    subscription.acknowledge(consumer, 7, [0, 1, 2], 0)
    assert subscription.unacked_of(consumer) == UNACKED_MAX - 3 * BATCH
    assert subscription.can_dispatch()
