"""A subscription: its cursor, its consumers, and the decision who gets which entries next. Pure: no clock, no I/O, no tasks.

The owner (the topic) asks `next_position`, finds the block that holds it, and hands it to `assign`, until `assign` stops. It runs
that loop whenever a consumer gains permits or becomes writable, or an entry is confirmed or to be sent again; nothing else does.

Order: Exclusive and Failover send from one read position and rewind to the mark-delete position when their consumer changes.
Shared keeps, a consumer, what it holds; what comes back goes to `redeliveries` and is sent before anything new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from pyroaring import BitMap

from messaging.broker.core import ack_sets
from messaging.broker.core.bitmaps import bitmap_of
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.dispatch.assignment import Assignment, Delivery
from messaging.broker.core.dispatch.consumer_order import ActiveOrder, RoundRobin
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.redeliveries import Redeliveries
from messaging.errors import ConsumerBusy, NotAllowed, NotReady, QuotaExceeded
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

ACK_SET_BYTES_MAX = 16 << 20  # of one subscription: some 50,000 batches of which some messages are acknowledged
SEARCHED_MAX = 16  # consumers asked at once whether they hold what another acknowledged; where there are more: once a dispatch
SHARE_MESSAGES_MAX = 20  # a turn of one consumer while others of a Shared subscription could take messages too


class SubscriptionType(IntEnum):
    """Subscription types, by their numbers on the wire."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3


TYPE_NAMES = {
    SubscriptionType.EXCLUSIVE: "Exclusive",
    SubscriptionType.SHARED: "Shared",
    SubscriptionType.FAILOVER: "Failover",
    SubscriptionType.KEY_SHARED: "Key_Shared",
}


class Subscription:
    def __init__(
        self,
        name: str,
        cursor: Cursor,
        ledger_list: LedgerList,
        *,
        subscription_id: int = 0,
        durable: bool = True,
        partition: int = -1,
        unacked_max: int = 50_000,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.subscription_id = subscription_id  # 0: not durable, nothing is stored
        self.durable = durable
        self.cursor = cursor
        self.ledger_list = ledger_list
        self.partition = partition
        self.unacked_max = unacked_max
        self.properties = properties or {}
        self.kind = SubscriptionType.EXCLUSIVE
        self.consumers: dict[Consumer, None] = {}  # in the order in which they came
        self.active: Consumer | None = None
        self.read_position = ledger_list.next_after(cursor.mark_delete)
        self.redeliveries = Redeliveries()
        self.fenced = False
        self._rotation = RoundRobin()  # Shared
        self._succession = ActiveOrder(partition)  # the others
        self._unreleased: dict[int, BitMap] = {}  # ledger -> entries acknowledged by others than those who, perhaps, hold them
        self.messages_out = 0
        self.bytes_out = 0
        self.entries_expired = 0
        self.entries_lost = 0  # that storage could not give
        self.charged_bytes: int | None = 0  # of `cursor.memory_bytes`: see `cursor_memory.py`
        self.may_keep: Callable[[int], bool] = lambda size: True
        self.last_expired_ms = 0
        self.last_consumed_ms = 0

    # --- consumers

    def admit(self, kind: SubscriptionType) -> None:
        """Raises where a consumer of `kind` cannot attach now: `ConsumerBusy`, `NotReady`, `NotAllowed`."""
        if self.fenced:
            raise NotReady(f"subscription {self.name!r} is being moved: try again")
        if kind is SubscriptionType.KEY_SHARED:
            raise NotAllowed("Key_Shared subscriptions are not served yet: subscribe with Shared, Failover or Exclusive")
        if not self.consumers:
            return
        if self.kind is not kind:
            raise ConsumerBusy(
                f"subscription {self.name!r} is {TYPE_NAMES[self.kind]} while its consumers are connected: "
                f"subscribe with that type, or close them first"
            )
        if kind is SubscriptionType.EXCLUSIVE:
            raise ConsumerBusy(
                f"subscription {self.name!r} is Exclusive and has a consumer: use Shared or Failover, or close that one"
            )

    def rivals(self, kind: SubscriptionType) -> list[Consumer]:
        """The consumers because of which `admit` would refuse one of `kind` for being busy."""
        return list(self.consumers) if kind is SubscriptionType.EXCLUSIVE or self.kind is not kind else []

    def attach(self, consumer: Consumer, kind: SubscriptionType) -> None:
        """Call `admit` first."""
        if not self.consumers:
            self.kind = kind
        self.consumers[consumer] = None
        if kind is SubscriptionType.SHARED:
            consumer.wakes = self._rotation.add
            consumer.wake()
        else:
            self._succession.add(consumer)
            self._choose_active(consumer)

    def detach(self, consumer: Consumer) -> None:
        """Idempotent. What it held goes back: to `redeliveries` for Shared, by rewinding otherwise."""
        if consumer not in self.consumers:
            return
        del self.consumers[consumer]
        if self.kind is SubscriptionType.SHARED:
            consumer.wakes = None
            self._rotation.discard(consumer)
            for ledger_id, entries in consumer.release_all().items():
                self.redeliveries.add(ledger_id, entries, self.cursor)
        else:
            self._succession.discard(consumer)
            self._choose_active(None)
        if not self.consumers:
            self._unreleased.clear()
            self.redeliveries.counts.clear()
            if self.kind is not SubscriptionType.SHARED:
                self._rewind()

    def _choose_active(self, newcomer: Consumer | None) -> None:
        """Who becomes active, ceases to be, or is new hears of it; of the others nothing changed."""
        former, self.active = self.active, self._succession.chosen()
        if self.active is not former:
            self._rewind()
        if self.kind is SubscriptionType.FAILOVER:
            changed = (former, self.active) if self.active is not former else ()
            for one in dict.fromkeys((*changed, newcomer)):
                if one is not None and one in self.consumers:
                    one.sink.active_changed(one, one is self.active)

    def _rewind(self) -> None:
        """Reading begins anew, so that what waits in `redeliveries` (of consumers while this was Shared) would come twice."""
        self.redeliveries.clear()
        self.read_position = self.ledger_list.next_after(self.cursor.mark_delete)

    # --- what to send next

    def can_dispatch(self) -> bool:
        """Whether some consumer could take a message now."""
        if self.fenced:
            return False
        if self.kind is SubscriptionType.SHARED:
            self._release_acknowledged()
            return self._rotation.first(self._ready) is not None
        return self.active is not None and self._ready(self.active)

    def _ready(self, consumer: Consumer) -> bool:
        # Only Shared counts (and bounds) what a consumer holds; elsewhere `unacked_messages` stays 0.
        return consumer.permits > 0 and consumer.sink.writable and consumer.unacked_messages < self.unacked_max

    def next_position(self) -> Position | None:
        """Where the next entry to send is, or None when all confirmed entries were sent."""
        if self.redeliveries:
            return self.redeliveries.first()
        self.read_position = self.ledger_list.resolve(self.read_position)
        return self.read_position if self.ledger_list.holds(self.read_position) else None

    def skip_lost(self, ledger_id: int, stop: int) -> list[bytes]:
        """Storage cannot give what `next_position` asked for: this goes on at entry `stop` of that ledger. What lies between counts
        as acknowledged, or it would hold mark-delete, and with it retention, for ever. Returns the deltas to store."""
        at = self.next_position()
        stop = min(stop, self.ledger_list.last_of(ledger_id) + 1)
        if at is None or at.ledger_id != ledger_id or at.entry_id >= stop:
            return []
        ranges = (self.redeliveries if self.redeliveries else self.cursor).unacked_ranges(ledger_id, at.entry_id, stop - 1)
        deltas = self._consume(ledger_id, ranges)
        self.read_position = max(self.read_position, Position(ledger_id, stop))
        self.entries_lost += sum(last + 1 - first for first, last in ranges)
        return deltas

    def assign(self, block: EntryBlock, at: Position, last: int, expired_before_ms: int, now_ms: int) -> Assignment:
        """Shares out the entries of `block` from `at` (what `next_position` named) to entry `last`, as far as permits go."""
        first, last = at.entry_id, min(last, self.ledger_list.last_of(block.ledger_id))
        replaying = bool(self.redeliveries)
        if replaying:
            ranges = self.redeliveries.unacked_ranges(at.ledger_id, first, last)
        else:
            ranges = self.cursor.unacked_ranges(block.ledger_id, first, last)
        if block.marker or block.broker_time_ms < expired_before_ms:
            return self._skip(block, ranges, replaying, last, now_ms)
        deliveries: list[Delivery] = []
        for start, stop in ranges:
            while start <= stop:
                consumer = self._pick()
                if consumer is None:
                    if not replaying:
                        self.read_position = Position(block.ledger_id, start)
                    return Assignment(deliveries, [], 0, False)
                taken = self._take(consumer, block, start - block.first_entry, stop - block.first_entry + 1)
                deliveries.append(taken)
                if replaying:
                    self.redeliveries.sent(block.ledger_id, start, block.first_entry + taken.last)
                start = block.first_entry + taken.last
        if not replaying:
            self.read_position = self.ledger_list.next_after(Position(block.ledger_id, last))
        if deliveries:
            self.last_consumed_ms = now_ms
        return Assignment(deliveries, [], 0, True)

    def _skip(self, block: EntryBlock, ranges: list[tuple[int, int]], replaying: bool, last: int, now_ms: int) -> Assignment:
        """Expired entries (and the broker's own markers) count as acknowledged; they are never sent."""
        deltas = self._consume(block.ledger_id, ranges)
        if not replaying:
            self.read_position = self.ledger_list.next_after(Position(block.ledger_id, last))
        expired = 0 if block.marker else sum(stop + 1 - start for start, stop in ranges)
        self.entries_expired += expired
        if expired:
            self.last_expired_ms = now_ms
        return Assignment([], deltas, expired, True)

    def _consume(self, ledger_id: int, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Acknowledges entries that nobody gets. Returns the deltas."""
        deltas = [self.cursor.acknowledge_range(ledger_id, first, last, self.ledger_list) for first, last in ranges]
        for first, last in ranges:
            self.redeliveries.acknowledged_range(ledger_id, first, last)
        return [delta for delta in deltas if delta]

    def _pick(self) -> Consumer | None:
        if self.kind is not SubscriptionType.SHARED:
            return self.active if self.active is not None and self._ready(self.active) else None
        return self._rotation.take(self._ready)

    def _take(self, consumer: Consumer, block: EntryBlock, first: int, last: int) -> Delivery:
        """Gives `consumer` entries from `first` on, before `last`, as far as its permits and its turn allow: at least one."""
        limit = consumer.permits
        if self.kind is SubscriptionType.SHARED:
            limit = min(limit, self.unacked_max - consumer.unacked_messages)
            if len(self.consumers) > 1:
                limit = min(limit, SHARE_MESSAGES_MAX)
        open_messages: list[int] | None = None
        if block.uniform:
            last = min(last, first + limit)
            messages = last - first
        else:
            messages, index = 0, first
            open_messages = []
            while index < last and messages < limit:
                open_messages.append(self.open_messages_of(block, index))
                messages += open_messages[-1]
                index += 1
            last = index
        consumer.permits -= messages
        consumer.messages_out += messages
        consumer.entries_out += last - first
        self.messages_out += messages
        if self.kind is SubscriptionType.SHARED:
            consumer.hold(block, first, last, open_messages)
        counts = self.redeliveries.counts_of(block.ledger_id, block.first_entry + first, block.first_entry + last)
        return Delivery(consumer, block, first, last, counts)

    def open_messages_of(self, block: EntryBlock, index: int) -> int:
        """Messages of an entry that are not acknowledged: only those take permits, the client passes over the others."""
        size = block.counts[index]
        bits = self.cursor.batches.bits(Position(block.ledger_id, block.first_entry + index)) if self.cursor.batches else None
        return size if bits is None else (bits & ((1 << size) - 1)).bit_count()

    # --- what comes back

    def acknowledge(self, consumer: Consumer | None, ledger_id: int, entries: Sequence[int], now_ms: int) -> bytes:
        """Individual acknowledgement of whole entries, by whoever holds them. Returns the delta, b"" if nothing changed."""
        named = bitmap_of(entries) if self.kind is SubscriptionType.SHARED else None
        delta = self.cursor.acknowledge(ledger_id, entries, self.ledger_list)
        if consumer is not None:
            consumer.last_acked_ms = now_ms
        if named is not None:
            self._release(consumer, ledger_id, named)
        return delta

    def _release(self, consumer: Consumer | None, ledger_id: int, entries: BitMap) -> None:
        """These are acknowledged: nobody holds them any more, and nobody is sent them again."""
        left = entries
        if consumer is not None:
            left = left - consumer.release(ledger_id, left)
            consumer.wake()
        if left:
            loose = self._unreleased.get(ledger_id)
            self._unreleased[ledger_id] = left if loose is None else loose | left
            if len(self.consumers) <= SEARCHED_MAX:
                self._release_acknowledged()
        self.redeliveries.acknowledged(ledger_id, entries)

    def _release_acknowledged(self) -> None:
        """Whoever holds what others acknowledged lets go of it: one walk over the consumers, however many acknowledged."""
        if not self._unreleased:
            return
        loose, self._unreleased = self._unreleased, {}
        for one in self.consumers:
            for ledger_id in loose.keys() & one.held.keys():
                one.release(ledger_id, loose[ledger_id])

    def acknowledge_batch(self, consumer: Consumer | None, position: Position, ack_set: Sequence[int], now_ms: int) -> bytes:
        """Some messages of one entry. Raises `QuotaExceeded` where that is one entry more than may be kept so; what completes an
        entry, and more of one that is kept, is always taken."""
        batches = self.cursor.batches
        if any(ack_set) and not batches.has(position) and not self.cursor.acknowledged(position):
            size = ack_sets.ENTRY_BYTES + 8 * len(ack_set)
            if batches.memory_bytes + size > ACK_SET_BYTES_MAX or not self.may_keep(size):
                raise QuotaExceeded(
                    f"{self.name!r} has {len(batches)} batches acknowledged in part: acknowledge the rest of them first"
                )
        delta, whole = self.cursor.acknowledge_batch(position, ack_set, self.ledger_list)
        if whole and delta:
            self.acknowledge(consumer, position.ledger_id, (position.entry_id,), now_ms)
        elif consumer is not None:
            consumer.last_acked_ms = now_ms
        return delta

    def acknowledge_up_to(self, position: Position, now_ms: int) -> bytes:
        """Cumulative; also skipping and expiry from outside. Reading never goes back before it."""
        delta = self.cursor.acknowledge_up_to(position, self.ledger_list)
        if delta:
            mark = self.cursor.mark_delete
            self.read_position = max(self.read_position, self.ledger_list.next_after(mark))
            self.redeliveries.acknowledged_up_to(mark)
            for one in self.consumers:
                one.release_up_to(mark)
        return delta

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """The client wants these again; None: all that it holds. Only what it holds is sent again, with a higher count (Shared)."""
        if self.kind is not SubscriptionType.SHARED:
            if consumer is self.active:
                count = self.unacked_of(consumer)
                consumer.messages_redelivered += consumer.messages_of(count)
                consumer.entries_redelivered += count
                self._rewind()
            return
        held = consumer.unacked_messages
        if positions is None:
            returned = consumer.release_all()
        else:
            wanted: dict[int, BitMap] = {}
            for position in positions:
                if 0 <= position.entry_id < 1 << 32:  # else no entry of ours
                    wanted.setdefault(position.ledger_id, BitMap()).add(position.entry_id)
            returned = {ledger_id: consumer.release(ledger_id, entries) for ledger_id, entries in wanted.items()}
        consumer.messages_redelivered += held - consumer.unacked_messages
        for ledger_id, entries in returned.items():
            self.redeliveries.count(ledger_id, entries)
            self.redeliveries.add(ledger_id, entries, self.cursor)

    def reset(self, mark_delete: Position) -> bytes:
        """Seek: reading begins after `mark_delete`. The owner has closed or refilled the consumers."""
        delta = self.cursor.reset(mark_delete, self.ledger_list)
        self.redeliveries.clear()
        self._unreleased.clear()
        for one in self.consumers:
            one.release_all()
        self.read_position = self.ledger_list.next_after(self.cursor.mark_delete)
        return delta

    # --- asking

    @property
    def backlog_entries(self) -> int:
        return self.cursor.backlog_entries(self.ledger_list)

    def unacked_of(self, consumer: Consumer) -> int:
        """What `consumer` was sent and has not acknowledged: messages for Shared, entries for the active consumer of the others."""
        if self.kind is SubscriptionType.SHARED:
            return consumer.unacked_messages
        if consumer is not self.active:
            return 0
        ledger_list = self.ledger_list
        sent = ledger_list.count_up_to(ledger_list.before(self.read_position)) - ledger_list.count_up_to(self.cursor.mark_delete)
        return max(0, sent - self.cursor.individual_ack_count)

    @property
    def unacked_messages(self) -> int:
        return sum(self.unacked_of(one) for one in self.consumers)

    @property
    def blocked(self) -> bool:
        """No consumer may take more because all hold too many unacknowledged messages."""
        return bool(self.consumers) and all(one.unacked_messages >= self.unacked_max for one in self.consumers)
