"""What a subscription and its dispatch strategy share: cursor, consumers, and the sources of entries to send. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pyroaring import BitMap

from messaging.broker.core.compaction.compacted_block import CompactedBlock
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.delayed_entries import DelayedEntries
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.reading import DelayedReading
from messaging.broker.core.delayed.topic_delays import DueRanges, TopicDelays
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.chunk_sets import ChunkSets
from messaging.broker.core.dispatch.compacted_reading import CompactedReading
from messaging.broker.core.dispatch.key_shared_mode import KeySharedSettings
from messaging.broker.core.dispatch.redeliveries import Redeliveries
from messaging.broker.core.dispatch.sources import EntrySource, ReadPosition
from messaging.broker.core.dispatch.unacked import UnackedMessages
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

SEARCHED_MAX = 16  # consumers asked at once whether they hold what another acknowledged
Due = tuple[EntrySource, Position]  # the next entry to send, and the source that it comes from


class DispatchState:
    __slots__ = (
        "chunks",
        "consumers",
        "cursor",
        "delayed",
        "delays",
        "key_shared",
        "ledger_list",
        "partition",
        "reading",
        "redeliveries",
        "set_aside",
        "sources",
        "topic",
        "unacked",
        "unsent",
        "unstored",
    )

    def __init__(
        self,
        cursor: Cursor,
        ledger_list: LedgerList,
        *,
        topic: str,
        partition: int,
        unacked: UnackedMessages,
        key_shared: KeySharedSettings,
    ) -> None:
        self.cursor = cursor
        self.ledger_list = ledger_list
        self.topic = topic  # its full name
        self.partition = partition
        self.unacked = unacked
        self.key_shared = key_shared
        self.consumers: dict[Consumer, None] = {}  # in the order in which they came
        self.redeliveries = Redeliveries(cursor)
        self.reading = ReadPosition(cursor, ledger_list)
        self.delays: TopicDelays | None = None  # both None until reading comes to the first delayed message
        self.delayed: DelayedEntries | None = None
        self.chunks: ChunkSets | None = None  # None while there are none
        self.unsent: deque[Delivery] = deque()  # given to consumers, and not sent yet: see `recovery.py`
        self.set_aside: EntrySets = {}  # of what is to be sent first: entries that nobody was sent before
        self.unstored: list[bytes] = []  # deltas of what was acknowledged for nobody meanwhile
        self.sources: tuple[EntrySource, ...] = (self.redeliveries, self.reading)

    def limit_unacked(self, consumer_max: int, subscription_max: int) -> None:
        """How many messages one consumer, and all together, may hold unacknowledged; 0: no limit."""
        self.unacked.limit(consumer_max, subscription_max)
        for consumer in self.consumers:
            consumer.follow_limit()

    def acknowledged_part(self, consumer: Consumer | None, position: Position) -> None:
        """Some messages of the entry at `position` are acknowledged, by `consumer`: whoever holds it holds less."""
        left = self.cursor.batches.bits(position)
        if left is None or (consumer is not None and consumer.release_part(position, left.bit_count())):
            return
        if len(self.consumers) <= SEARCHED_MAX:  # else the count follows when the entry is done
            for holder in self.consumers:
                if holder.release_part(position, left.bit_count()):
                    return

    def read_compacted(self, compacted: bool) -> None:
        """Whether the consumer that is sent everything reads the compacted topic. The caller rewinds."""
        former, kind = self.reading, CompactedReading if compacted else ReadPosition
        if type(former) is not kind:
            self.reading = kind(self.cursor, self.ledger_list)
            self.sources = tuple(self.reading if source is former else source for source in self.sources)

    def enter_compacted(self, block: CompactedBlock, cancelled: BitMap | None, *, durable: bool) -> tuple[Position, list[bytes]]:
        """See `CompactedReading.enter`."""
        assert isinstance(self.reading, CompactedReading)
        return self.reading.enter(block, cancelled, durable=durable)

    def pass_over_end(self) -> list[bytes]:
        """See `CompactedReading.pass_over_end`."""
        return self.reading.pass_over_end() if isinstance(self.reading, CompactedReading) else []

    def send_first(self, source: EntrySource) -> None:
        """What is to be sent again comes from there."""
        self.sources = (source, *self.sources[1:])

    def next_position(self) -> Position | None:
        """The next entry to send, whichever source it comes from."""
        return next((position for source in self.sources if (position := source.next_position()) is not None), None)

    def use_delays(self, delays: TopicDelays) -> None:
        """From now on delayed messages wait until they are due."""
        reading = DelayedReading(self.cursor, self.ledger_list, delays.index.pending, self.reading.position)
        self.delayed = delays.join(self)
        self.delays, self.reading = delays, reading
        self.sources = (self.sources[0], self.delayed, reading)

    def stop_delays(self) -> None:
        """Delayed messages do not wait any more. The caller rewinds."""
        if self.delays is not None and self.delayed is not None:
            reading = ReadPosition(self.cursor, self.ledger_list)
            self.delays.leave(self.delayed)
            self.delays, self.delayed, self.reading = None, None, reading
            self.sources = (self.sources[0], reading)

    @property
    def read_position(self) -> Position:
        return self.reading.position

    def not_to_be_sent(self, ledger_id: int, entries: BitMap) -> None:
        """Those of these that were set aside, and that nobody was sent, are not to be sent now."""
        for of_ledger, some in entry_sets.take(self.set_aside, {ledger_id: entries}).items():
            self.redeliveries.take(of_ledger, some)

    def in_hand(self, ledger_id: int) -> BitMap:
        """The entries that a consumer holds or that are to be sent again."""
        redeliveries = self.redeliveries
        sets = [entries[ledger_id] for entries in (redeliveries.entries, redeliveries.dead) if ledger_id in entries]
        sets += [consumer.held[ledger_id] for consumer in self.consumers if ledger_id in consumer.held]
        return BitMap.union(*sets) if sets else BitMap()

    def hold_back(self, block: EntryBlock, ranges: list[tuple[int, int]]) -> DueRanges:
        """Which entries of a delayed block, next to be read, may be sent now."""
        if self.delays is None:
            return DueRanges(ranges, (), None)
        return self.delays.hold_back(block, ranges)

    def pass_over(self, ledger_id: int, held_back: DueRanges, stopped_at: int | None) -> int | None:
        """What of a delayed block may be sent was sent, up to entry `stopped_at`, or all. What was held back before that waits
        until it is due. Returns the entry at which reading stops, or None."""
        stop = held_back.stop if stopped_at is None else stopped_at
        if self.delays is not None and self.delayed is not None:
            times = held_back.times if stop is None else [(entry, at_ms) for entry, at_ms in held_back.times if entry < stop]
            self.delays.wait(ledger_id, times)
        return stop

    def rewind(self) -> None:
        """Reading continues right after the mark-delete position, so that nothing has to be sent again on top of that."""
        self.redeliveries.clear()
        self.set_aside.clear()
        if self.delayed is not None:
            self.delayed.clear()
        self.reading.rewind()
        self.chunks = None

    def acknowledged_up_to(self, mark: Position) -> None:
        self.reading.skip_past(mark)
        self.redeliveries.acknowledged_up_to(mark)
        if self.delayed is not None:
            self.delayed.acknowledged_up_to(mark)
        if self.chunks:
            self.chunks.acknowledged_up_to(mark)
        for consumer in self.consumers:
            consumer.release_up_to(mark)

    def _sent_chunks(self, consumer: Consumer, block: EntryBlock, indexes: Iterable[int], hold: bool) -> None:
        """Some of the entries with these indexes are chunks."""
        for index in indexes:
            chunk = block.chunk_at(index)
            if chunk is not None:
                consumer.chunks_out += 1
                if self.chunks is None:
                    self.chunks = ChunkSets(self.redeliveries.add)
                position = Position(block.ledger_id, block.first_entry + index)
                self.chunks.sent(consumer, position, chunk, block.broker_time_ms, counted=hold)

    def unfinished_chunks(self, now_ms: int, silent_ms: int) -> list[Position]:
        """The chunks of messages that nobody will complete: for `silent_ms` none came, though everything stored since was read, and
        the rest is not among what waits for a consumer."""
        if not self.chunks:
            return []
        all_read = all(source.next_position() is None for source in self.sources)
        before_ms = (now_ms if all_read else self.chunks.newest_ms) - silent_ms
        return self.chunks.unfinished(before_ms, self.redeliveries.last_position())

    def own_heads_in(self, ledger_id: int, first: int, last: int) -> int:
        """No more of the entries `first`..`last` than that are sent with a redelivery count or an ack set. Such a frame has a head
        of its own, which costs several times as much as one that is made with all others of its block."""
        counts, batches = self.redeliveries.counts, self.cursor.batches
        heads = counts.at_most_in(ledger_id, first, last) if counts else 0
        return heads + len(batches.entries_in(ledger_id, first, last)) if batches else heads

    def unacked_messages_in(self, block: EntryBlock, index: int) -> int:
        """Messages of an entry that are not acknowledged: only those take permits, the client skips the others."""
        size, batches = block.counts[index], self.cursor.batches
        bits = batches.bits(Position(block.ledger_id, block.first_entry + index)) if batches else None
        return size if bits is None else (bits & ((1 << size) - 1)).bit_count()

    def unacked_counts(self, block: EntryBlock) -> list[int] | None:
        """The unacknowledged messages of each entry; None for one each."""
        if block.uniform:
            return None
        if not self.cursor.batches:
            return block.counts
        return [self.unacked_messages_in(block, index) for index in range(len(block.end_offsets))]

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, messages_max: int, *, hold: bool) -> Delivery:
        """Gives `consumer` entries from `first` on, before `last`, until they have `messages_max` messages: at least one entry.
        `hold`: until it acknowledges them they are its own."""
        unacked: list[int] | None = None
        if block.uniform:
            last = min(last, first + messages_max)
            messages = last - first
        else:
            messages, index = 0, first
            unacked = []
            while index < last and messages < messages_max:
                unacked.append(self.unacked_messages_in(block, index))
                messages += unacked[-1]
                index += 1
            last = index
        counts = self.redeliveries.counts.of_each(block.ledger_id, range(block.first_entry + first, block.first_entry + last))
        delivery = Delivery(consumer, block, first, last, counts, messages)
        self._give(delivery)
        if block.chunked:
            self._sent_chunks(consumer, block, range(first, last), hold)
        if hold:
            consumer.hold(block, first, last, unacked)
        return delivery

    def _give(self, delivery: Delivery) -> None:
        """It takes permits. From here on it can be taken back."""
        consumer, messages = delivery.consumer, delivery.messages
        self.unsent.append(delivery)
        consumer.permits -= messages
        consumer.messages_out += messages
        consumer.entries_out += delivery.last - delivery.first if delivery.picked is None else len(delivery.picked)

    def deliver_picked(
        self, consumer: Consumer, block: EntryBlock, picked: list[int], unacked: list[int] | None
    ) -> tuple[Delivery, BitMap]:
        """Gives `consumer` the entries with the indexes `picked`, in order, of which `unacked` messages are not acknowledged each;
        None: one each. They are its own until it acknowledges them. Returns the delivery, and the entries."""
        ledger_id, first, last = block.ledger_id, picked[0], picked[-1] + 1
        entries = block.entries_at(picked)
        messages = len(picked) if unacked is None else sum(unacked)
        counts = self.redeliveries.counts.of_each(ledger_id, entries)
        gaps = block.gathered or len(picked) != last - first
        delivery = Delivery(consumer, block, first, last, counts, messages, picked if gaps else None)
        self._give(delivery)
        if block.chunked:
            self._sent_chunks(consumer, block, picked, True)
        consumer.hold(block, first, last, unacked, entries)
        return delivery, entries
