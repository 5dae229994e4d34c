"""What consumers and administrators do with the subscription, and what crashes do."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.dropped_ledgers import forget
from messaging.broker.core.delayed.changes import reached
from messaging.broker.core.delayed.overrides import Overrides, acknowledge_cancelled
from messaging.broker.core.maintenance.reclaim import consumed, forget_gone
from messaging.broker.core.seek_target import SeekTarget
from messaging.storage.ledger_store import Position
from messaging.storage.meta_store import LedgerRecord
from tests.simulation.checker import Violated
from tests.simulation.subscriptions.client import Sink, sink_of
from tests.simulation.subscriptions.dispatched import DispatchedTopic
from tests.simulation.subscriptions.model import Fate


class Topic(DispatchedTopic):
    """A crash is a method."""

    # --- consumers

    def attach(self, *, priority: int = 0) -> Consumer:
        self._consumer_ids += 1
        consumer = Consumer(self._consumer_ids, f"c{self._consumer_ids}", Sink(self.deliver), priority=priority)
        active = self.subscription.active
        self.subscription.admit(consumer, self.kind)
        self.subscription.attach(consumer, self.kind)
        self._follow_active(active)
        self.dispatch()
        return consumer

    def detach(self, consumer: Consumer) -> None:
        active = self.subscription.active
        self.subscription.detach(consumer)
        self._left(consumer)
        self._follow_active(active)
        self.dispatch()

    def _left(self, consumer: Consumer) -> None:
        for position in self.model.held_by(consumer):
            del self.model.with_whom[position]
        if not self.subscription.consumers and self.redeliver_max is None:
            self.model.asked_again.clear()

    def _follow_active(self, before: Consumer | None) -> None:
        if self.subscription.active is not before:
            self.model.forget_holders()

    def flow(self, consumer: Consumer, permits: int) -> None:
        sink_of(consumer).permits += permits
        consumer.flow(permits, self.now_ms)
        self.dispatch()

    def readable(self, consumer: Consumer, readable: bool) -> None:
        sink_of(consumer).writable = readable
        consumer.wake()
        self.dispatch()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        """None: all that it holds."""
        model = self.model
        if self.subscription.active is None:
            model.ask_again(model.held_by(consumer) if positions is None else positions, consumer)
        elif consumer is self.subscription.active:
            model.forget_holders()
        self.subscription.redeliver(consumer, positions)
        self.dispatch()

    # --- what is settled

    def acknowledge(self, consumer: Consumer | None, positions: Sequence[Position], fate: Fate = Fate.ACKNOWLEDGED) -> None:
        for position in positions:
            delta = self.subscription.acknowledge(consumer, position.ledger_id, (position.entry_id,), self.now_ms)
            stored = self.log.append([delta])
            self.model.settle(self._settled_with(position), fate, stored)
        self.dispatch()

    def _settled_with(self, position: Position) -> list[Position]:
        """Of a chunked message all chunks in the same ledger go together."""
        cursor = self.subscription.cursor
        return [part for part in self.model.whole_messages([position]) if part == position or cursor.acknowledged(part)]

    def acknowledge_part(self, consumer: Consumer, position: Position, left: int) -> None:
        before = self.model.left.get(position, (1 << self.model.entries[position].size) - 1)
        delta = self.subscription.acknowledge_batch(consumer, position, [left], self.now_ms)
        stored = self.log.append([delta])
        if before & left:
            self.model.settle_part(position, before & left, stored)
        else:
            self.model.settle([position], Fate.ACKNOWLEDGED, stored)
        self.dispatch()

    def acknowledge_up_to(self, position: Position, fate: Fate) -> None:
        stored = self.log.append([self.subscription.acknowledge_up_to(position, self.now_ms)])
        self.model.settle([earlier for earlier in self.model.open if earlier <= position], fate, stored)
        self.dispatch()

    def seek(self, to: Position, words: int = 0) -> None:
        """After `to`; `words`: what stays open of the batch that follows it."""
        for consumer in self.consumers:
            self.subscription.detach(consumer)
        following = self.ledger_list.next_after(to)
        target = SeekTarget(to, following, (words,)) if words else SeekTarget(to)
        stored = self.log.append([*self.subscription.reset(target), *self._cancelled_again()])
        self.model.seek(to, stored)
        overrides = self.delays.overrides
        if overrides is not None:
            self.model.settle(
                [position for position in self.model.open if overrides.is_cancelled(position)], Fate.CANCELLED, stored
            )
        if words:
            self.model.settle_part(following, words, stored)
        self.moving.clear()
        self.sync()

    def may_change(self, position: Position) -> bool:
        """Whether a delayed message may be cancelled or rescheduled."""
        return not reached([self.subscription], position, self.model.entries[position].stored_ms)

    def cancel(self, positions: Sequence[Position]) -> None:
        """Durable at once: the table of what is cancelled is stored before it is confirmed."""
        for ledger_id, entry_id in positions:
            self.delays.cancel(ledger_id, BitMap([entry_id]))
            stored = self.log.append([self.subscription.acknowledge(None, ledger_id, (entry_id,), self.now_ms)])
            self.model.settle([Position(ledger_id, entry_id)], Fate.CANCELLED, stored)
        self.sync()
        self.dispatch()

    def reschedule(self, position: Position, at_ms: int) -> None:
        entry, overrides = self.model.entries[position], self.delays.overrides
        override = None if overrides is None else overrides.time_of(position)
        self.delays.reschedule(position, at_ms, entry.due_ms if override is None else override.former_ms)
        entry.due_ms = at_ms
        self.delays.advance(self.now_ms, self.policy)
        self.dispatch()

    def _cancelled_again(self) -> list[bytes]:
        overrides = self.delays.overrides
        return [] if overrides is None else acknowledge_cancelled(overrides, self.subscription.cursor, self.ledger_list)

    def expire_chunks(self, silent_ms: int) -> list[Position]:
        unfinished = self.subscription.state.unfinished_chunks(self.now_ms, silent_ms)
        broken = [
            position
            for position in unfinished
            if position in self.model.open and self._can_be_whole(self.model.entries[position].message)
        ]
        if broken:
            raise Violated(f"{broken} are chunks of a message that is stored as a whole, and were given up")
        self.acknowledge(None, unfinished, Fate.EXPIRED)
        return unfinished

    def _can_be_whole(self, message: int) -> bool:
        dead = self.subscription.state.redeliveries.is_dead
        return self.model.is_whole(message) and not any(dead(position) for position in self.model.messages[message][1])

    # --- dead letters: in the target first, then acknowledged

    def begin_move(self, count: int) -> None:
        dead = self.subscription.state.redeliveries.first_dead(count)
        for position in dead:
            if position not in self.model.open:
                raise Violated(f"{position} goes to the dead letters and is not in the backlog")
            self.model.target[position] += 1
        self.moving = dead

    def end_move(self) -> None:
        moved, self.moving = self.moving, []
        self.acknowledge(None, moved, Fate.DEAD_LETTERED)
        self.sync()  # what was being moved is forgotten when this is durable

    # --- time, storage, crashes

    def trim(self) -> list[int]:
        """As maintenance does it, without retention: ledgers in the middle go, too, when everything in them is acknowledged, be
        that durable or not. Returns their ids."""
        self.dispatch()  # what raised once is tried again before
        ended = list(zip(self.ledger_list.ids, self.ledger_list.lasts, strict=True))[:-1]
        records = [LedgerRecord(ledger_id, last) for ledger_id, last in ended]
        cursor = self.subscription.cursor
        behind = {ledger_id for ledger_id, last in ended if Position(ledger_id, last) <= cursor.mark_delete}
        wanted = behind | consumed(records, [cursor], self.ledger_list.last)
        gone = [ledger for ledger in records if ledger.ledger_id in wanted]
        for record in gone:
            self.counts["ledgers in the middle dropped"] += record.ledger_id not in behind
            self.ledger_list.drop(record.ledger_id)
            self.model.drop(record.ledger_id)
        forget(self.subscription, gone)
        self.dispatch()
        return [ledger.ledger_id for ledger in gone]

    def crash(self) -> None:
        """Consumers are gone."""
        for stored in self.log.lose():
            self.model.take_back(stored)
        self.model.asked_again.clear()
        self.model.forget_holders()
        overrides, pending = self.delays.overrides, self.index.pending
        cursor = self.log.restore(self.ledger_list)
        forget_gone(cursor, self.ledger_list)
        self.begin(cursor)
        if overrides is not None:
            overrides.forget(self.ledger_list, self.now_ms, pending)
            self.delays.restore(Overrides.decode(overrides.encode()))
            self._cancelled_again()
        self.look_at_delays()
        self.sync()
        if self.moving:
            self.end_move()
