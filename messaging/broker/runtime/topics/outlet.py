"""Log to sockets: hands the entries of a topic to its subscriptions, from memory where they are still there, else from storage.

Whenever something may have become possible a delivery begins here: with `dispatch` at once, where a block is durable; with
`dispatch_soon` once a turn of the loop, however many of its consumers gained permits, acknowledged or became writable in it. Both
serve from memory, a slice at a time, in turn with all others (`core/turns.py`); who is behind is served by `dispatch_behind`, in
turn with all others that are (see `catch_up.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from messaging.broker.core.command_costs import BLOCK, SEND_BYTES_A_UNIT
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.behind import Behind
from messaging.broker.runtime.topics.tail import Tail
from messaging.storage.seam import Position

if TYPE_CHECKING:
    from messaging.broker.runtime.topics.inlet import Appended
    from messaging.broker.runtime.topics.topic import Topic

DISPATCH_COST = 4096  # handed out before other topics get their turn of the loop: entries, bytes and deliveries as units
DISPATCH_ENTRIES_MAX = 2048  # of one block at a time


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
        """Hands out what can be handed out now, a slice of it at once. Safe to call at any time; raises nothing."""
        topic = self.topic
        try:
            if self._dispatch(subscription, DISPATCH_COST)[1]:
                self.dispatch_soon(subscription)
        except Exception as error:  # of this one; the others of its topic, and whoever called, go on
            topic.services.dispatching.failed(error, topic=topic.text, subscription=subscription.name)

    def dispatch_soon(self, subscription: Subscription) -> None:
        """The same in the next turn of the loop, once however often it was asked for. Nothing where all was handed out already."""
        if subscription.next_position() is None and not self.topic.ledger.terminated:
            return
        self.topic.services.dispatch_turns.wait(self.topic.name.tenant, Dispatch(self, subscription))

    def _dispatch(self, subscription: Subscription, cost_max: int) -> tuple[int, bool]:
        """What was spent of `cost_max`, and whether there is more to hand out."""
        cost = 0
        while cost < cost_max:
            position = self._next(subscription)
            if position is None:
                return cost, False
            block = self.tail.find(position)
            if block is None:
                self.topic.services.catch_up.serve(self, subscription)
                return cost, False
            if self.behind is not None and not subscription.replay:
                self.behind.forget(subscription)
            last = min(block.last_entry, position.entry_id + DISPATCH_ENTRIES_MAX - 1)
            size, more, deliveries = self._hand_out(subscription, block, position, last)
            cost += size // SEND_BYTES_A_UNIT + BLOCK * (1 + deliveries)
            if not more:
                return cost, False
            cost += last + 1 - position.entry_id
        return cost, True

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
            size, more, _ = self._hand_out(subscription, block, position, last)
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

    def _hand_out(self, subscription: Subscription, block: EntryBlock, position: Position, last: int) -> tuple[int, bool, int]:
        """Hands out the entries of `block` from `position` to entry `last`: (bytes, whether to go on, deliveries)."""
        topic = self.topic
        services = topic.services
        now_ms = services.clock_ms()
        ttl_s = services.message_ttl_s(topic.name)
        expired_before_ms = services.storage.safe_expiry_ms() - ttl_s * 1000 if ttl_s else 0
        topic.happened()
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
        return total, assigned.more, len(assigned.deliveries)

    def forget(self, subscription: Subscription) -> None:
        """Lets go of what was read for it."""
        if self.behind is not None:
            self.behind.forget(subscription)

    def close(self) -> None:
        self.closed = True
        if self.behind is not None:
            self.behind.close()
        self.topic.services.tail_cache.clear(self.tail)


class Dispatch(NamedTuple):
    """A subscription that may be handed something: equal to any other of the same one."""

    outlet: Outlet
    subscription: Subscription


def dispatch_slice(due: Dispatch) -> str | None:
    """A slice of what is due; the tenant whose turn the rest waits for."""
    outlet, subscription = due
    turns = outlet.topic.services.dispatch_turns.turns
    cost, more = outlet._dispatch(subscription, min(DISPATCH_COST, turns.left_to_waiting))
    turns.left -= cost + BLOCK
    return outlet.topic.name.tenant if more else None


def _tell_end(subscription: Subscription) -> None:
    if subscription.backlog_entries:
        return
    for consumer in subscription.consumers:
        if not consumer.end_told:
            consumer.end_told = True
            consumer.sink.end_of_topic(consumer)
