"""Log to sockets: hands the entries of a topic to its subscriptions, from memory where they are still there, else from storage.

`dispatch` is called whenever something may have become possible: a block is durable, a consumer gained permits, became writable
again or gave entries back. It is the only place where a delivery begins, and serves from memory at once; who is behind is served by
`dispatch_behind`, in turn with all others that are (see `catch_up.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.behind import Behind
from messaging.broker.runtime.topics.tail import Tail
from messaging.storage.seam import Position

if TYPE_CHECKING:
    from messaging.broker.runtime.topics.inlet import Appended
    from messaging.broker.runtime.topics.topic import Topic

DISPATCH_BLOCKS_MAX = 64  # blocks handed out before other topics get their turn of the loop


class Outlet:
    __slots__ = ("behind", "bytes_out", "closed", "messages_out", "tail", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.tail = Tail()
        self.behind: Behind | None = None  # what was read from storage, while there is anything
        self.messages_out = 0
        self.bytes_out = 0
        self.closed = False

    def keep(self, appended: Appended, readers: list[Subscription]) -> None:
        """A block is durable: keeps it in memory if one of `readers`, those with consumers, may soon want it."""
        behind = self.behind
        if behind is None or len(behind.readers) < len(readers) or behind.near_end():
            self.tail.add(appended.block(), self.topic.services.tail_cache)

    def dispatch(self, subscription: Subscription) -> None:
        """Hands out what can be handed out now. Safe to call at any time."""
        for _ in range(DISPATCH_BLOCKS_MAX):
            position = self._next(subscription)
            if position is None:
                return
            block = self.tail.find(position)
            if block is None:
                self.topic.services.catch_up.serve(self, subscription)
                return
            if self.behind is not None and not subscription.replay:
                self.behind.forget(subscription)
            if not self._hand_out(subscription, block, position, block.last_entry)[1]:
                return
        asyncio.get_running_loop().call_soon(self.dispatch, subscription)

    def dispatch_behind(self, subscription: Subscription, bytes_max: int) -> bool:
        """Hands out about `bytes_max` that storage has. Whether there is more that can be handed out now."""
        handed_out = 0
        while handed_out < bytes_max:
            position = self._next(subscription)
            if position is None:
                return False
            if self.tail.find(position) is not None:
                self.dispatch(subscription)
                return False
            if self.behind is None:
                self.behind = Behind(self)
            block = self.behind.find(subscription, position)
            if block is None:
                return False
            last = block.last_within(position.entry_id, bytes_max - handed_out)
            size, more = self._hand_out(subscription, block, position, last)
            if not more:
                return False
            # Entries passed over are work too.
            handed_out += size or block.bytes_in(position.entry_id - block.first_entry, last + 1 - block.first_entry)
        return True

    def _next(self, subscription: Subscription) -> Position | None:
        """Where something is that can be handed out."""
        if self.topic.ledger.terminated:
            _tell_end(subscription)
        if not subscription.wants() or self.closed:
            return None
        return subscription.next_position()

    def _hand_out(self, subscription: Subscription, block: EntryBlock, position: Position, last: int) -> tuple[int, bool]:
        """Hands out the entries of `block` from `position` to entry `last`: (bytes handed out, whether to go on)."""
        topic = self.topic
        services = topic.services
        now_ms = services.clock_ms()
        ttl_s = services.message_ttl_s(topic.name)
        expired_before_ms = services.storage.old_ms() - ttl_s * 1000 if ttl_s else 0
        assigned = subscription.assign(block, position, last, expired_before_ms, now_ms)
        total = 0
        for consumer, given, first, stop, redeliveries in assigned.deliveries:
            size = consumer.sink.deliver(consumer, given, first, stop, redeliveries)
            consumer.bytes_out += size
            total += size
            self.messages_out += given.messages_in(first, stop)
        subscription.bytes_out += total
        self.bytes_out += total
        for delta in assigned.deltas:
            topic.store(subscription, delta)
        return total, assigned.more

    def forget(self, subscription: Subscription) -> None:
        """Lets go of what was read for it."""
        if self.behind is not None:
            self.behind.forget(subscription)

    def close(self) -> None:
        self.closed = True
        if self.behind is not None:
            self.behind.close()
        self.topic.services.tail_cache.clear(self.tail)


def _tell_end(subscription: Subscription) -> None:
    if subscription.backlog_entries:
        return
    for consumer in subscription.consumers:
        if not consumer.end_told:
            consumer.end_told = True
            consumer.sink.end_of_topic(consumer)
