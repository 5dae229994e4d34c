"""Chunked messages that consumers hold: all chunks of a message go to one consumer, and are acknowledged and redelivered together.

Pulsar's brokers treat each chunk as a message of its own. Here, once all chunks were sent to a consumer, acknowledging one of them
acknowledges all (those in the same ledger), and redelivering one redelivers all. A message whose last chunk never arrives because
its producer died is acknowledged after a while, so that it does not hold back the mark-delete position forever.

Where several consumers take turns, a chunk whose consumer does not read now waits for it, and nothing else does. Until a message is
whole its consumer can neither acknowledge nor reject anything of it. So its chunks do not count towards the limits on messages that
are not acknowledged, and a part that is sent again is not counted as redelivered: all chunks of a message have the same count, and
become dead letters together. Pure.

Messages are known by a digest of what producers call them, so that the length of a name costs nothing. Their number is limited, and
so is the memory of a tenant's (`cursor_memory.py`): beyond it the chunks of the oldest count as messages of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from pyroaring import BitMap

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.consumer import Consumer
from messaging.storage.ledger_store import Position

EntriesByLedger = dict[int, BitMap]

CHUNKS_MAX = 10_000  # of one subscription
CHUNKS_MIN = 16  # of one subscription, however many others its tenant has: the newest message can become whole
CHUNK_BYTES = 570  # memory that one takes, measured


class ChunkSet:
    """What was sent of one message."""

    __slots__ = ("chunks", "consumer", "known", "last_ms", "message", "positions", "uncounted", "waiting")

    def __init__(self, message: bytes, chunks: int, consumer: Consumer) -> None:
        self.message = message
        self.chunks = chunks
        self.consumer = consumer
        self.positions: dict[int, Position] = {}  # by the number of the chunk
        self.known = 0  # of those, the ones that are not acknowledged
        self.last_ms = 0  # when the broker stored the newest of them
        self.uncounted = 0  # chunks that do not count towards the limits of its consumer
        self.waiting: EntriesByLedger = {}  # chunks that its consumer could not take yet

    @property
    def whole(self) -> bool:
        return len(self.positions) == self.chunks


class ChunkSets:
    """`give_back` is told of chunks that waited for a consumer: they are to be sent to it now, or to another."""

    __slots__ = (
        "_by_consumer",
        "_by_position",
        "_entries",
        "_give_back",
        "_returned",
        "_sets",
        "_taken",
        "_taking",
        "_waiting",
        "charged_bytes",
        "newest_ms",
    )

    def __init__(self, give_back: Callable[[int, BitMap], None]) -> None:
        self._give_back = give_back
        self._sets: OrderedDict[bytes, ChunkSet] = OrderedDict()  # the oldest first
        self._by_consumer: dict[Consumer, dict[ChunkSet, None]] = {}  # the same
        self._by_position: dict[Position, ChunkSet] = {}
        self._entries: EntriesByLedger = {}  # of the positions in there
        self._waiting: dict[Consumer, dict[ChunkSet, None]] = {}  # those of which chunks wait
        self._returned: list[EntriesByLedger] = []  # for `give_back`
        self._taken: dict[Consumer, EntriesByLedger] = {}  # parts of messages that it lost to another
        self._taking: dict[ChunkSet, None] = {}  # what `take_back` has not done with, because something raised
        self.newest_ms = 0  # when the broker stored the newest entry that was sent
        self.charged_bytes = 0  # of `memory_bytes`, to the tenant: see `cursor_memory.py`

    def __bool__(self) -> bool:
        return bool(self._sets or self._taken or self._taking)

    @property
    def memory_bytes(self) -> int:
        return CHUNK_BYTES * (len(self._by_position) + sum(len(taken) for taken in self._taken.values()))

    def holder(self, chunk: Chunk) -> Consumer | None:
        """The consumer that has the chunks before this one."""
        chunk_set = self._sets.get(chunk.message)
        return None if chunk_set is None or not chunk.chunk_id else chunk_set.consumer

    def sent(self, consumer: Consumer, position: Position, chunk: Chunk, stored_ms: int, *, counted: bool) -> None:
        """`counted`: towards the limits on what `consumer` may hold. Call `settle` when everything is sent."""
        chunk_set = self._sets.get(chunk.message)
        if chunk_set is None or chunk_set.consumer is not consumer or chunk_set.chunks != chunk.chunks or not chunk.chunk_id:
            self._set_aside(chunk_set)
            chunk_set = self._sets[chunk.message] = ChunkSet(chunk.message, chunk.chunks, consumer)
            self._by_consumer.setdefault(consumer, {})[chunk_set] = None
        former = chunk_set.positions.get(chunk.chunk_id)
        if former is not None:
            self._drop(former)
        elif counted:
            consumer.leave_uncounted(1)
            chunk_set.uncounted += 1
        chunk_set.positions[chunk.chunk_id] = position
        chunk_set.last_ms = max(chunk_set.last_ms, stored_ms)
        self._put(position, chunk_set)
        if consumer in self._taken:
            self._taken[consumer].get(position.ledger_id, BitMap()).discard(position.entry_id)
        if chunk_set.whole:
            self._count(chunk_set)
        while len(self._by_position) > CHUNKS_MAX:
            self._forget(next(iter(self._sets.values())))

    def forget_oldest(self, size: int) -> None:
        """There is no memory for so many bytes of what is remembered: the oldest messages go."""
        chunks_left = max(CHUNKS_MIN, len(self._by_position) - -(-size // CHUNK_BYTES))
        while len(self._by_position) > chunks_left:
            self._forget(next(iter(self._sets.values())))
        self.settle()

    def _set_aside(self, chunk_set: ChunkSet | None) -> None:
        """The producer began this message anew: what was sent of it is a message of its own, which perhaps nobody completes."""
        if chunk_set is not None:
            del self._sets[chunk_set.message]
            chunk_set.message += b"%d:%d" % next(iter(chunk_set.positions.values()))
            self._sets[chunk_set.message] = chunk_set

    def not_sent(self, consumer: Consumer, position: Position, chunk: Chunk, *, counted: bool) -> None:
        """Takes back `sent`, also where that raised. The chunk is still to be sent to `consumer`."""
        chunk_set = self._sets.get(chunk.message)
        if chunk_set is None or chunk_set.consumer is not consumer:
            return
        if chunk_set.positions.get(chunk.chunk_id) == position:
            del chunk_set.positions[chunk.chunk_id]
            self._drop(position)
        if not chunk_set.positions:
            self._forget(chunk_set)
        elif counted and not chunk_set.whole:
            uncounted = sum(self._by_position.get(part) is chunk_set for part in chunk_set.positions.values())
            consumer.leave_uncounted(uncounted - chunk_set.uncounted)
            chunk_set.uncounted = uncounted

    # --- chunks that wait for their consumer

    def waits(self, consumer: Consumer) -> bool:
        """Whether chunks wait for it already: no others may be sent before them."""
        return consumer in self._waiting

    def wait(self, position: Position, chunk: Chunk) -> None:
        """The holder of the chunks before this one cannot take it now: see `resume`."""
        chunk_set = self._sets[chunk.message]
        self._waiting.setdefault(chunk_set.consumer, {})[chunk_set] = None
        chunk_set.waiting.setdefault(position.ledger_id, BitMap()).add(position.entry_id)

    def resume(self, consumer: Consumer) -> None:
        """It can take again what waits for it."""
        for chunk_set in self._waiting.pop(consumer, ()):
            self._returned.append(chunk_set.waiting)
            chunk_set.waiting = {}
        self.settle()

    def resume_all(self) -> None:
        for consumer in list(self._waiting):
            self.resume(consumer)
        self.settle()

    def settle(self) -> None:
        """Gives back what waited for a consumer that does not get it any more."""
        while self._returned:
            for ledger_id, entries in self._returned[-1].items():
                self._give_back(ledger_id, entries)
            self._returned.pop()

    def waiting_in(self, ledger_id: int) -> BitMap:
        """The chunks that wait for their consumers."""
        waiting = [
            chunk_set.waiting[ledger_id] for sets in self._waiting.values() for chunk_set in sets if ledger_id in chunk_set.waiting
        ]
        return BitMap.union(BitMap(), *waiting)

    # --- messages that go to another consumer before they are whole

    def take_back(self, owner_of: Callable[[Position], Consumer | None]) -> list[tuple[int, BitMap]]:
        """What others than the owners have of messages that are not whole, by ledger: the owners are sent these from their first
        chunk on. Clients acknowledge parts of messages that they gave up waiting for: from those that lost one it means nothing."""
        taken_back = []
        for chunk_set in dict.fromkeys([*self._taking, *self._unfinished()]):
            consumer = chunk_set.consumer
            parts = [part for part in chunk_set.positions.values() if part.entry_id in consumer.held.get(part.ledger_id, ())]
            if not parts or (chunk_set not in self._taking and owner_of(parts[0]) is consumer):
                self._taking.pop(chunk_set, None)
                continue
            self._taking[chunk_set] = None
            self._forget_all([chunk_set])
            taken = self._taken.setdefault(consumer, {})
            for ledger_id in {part.ledger_id for part in parts}:
                entries = consumer.release(ledger_id, BitMap([part.entry_id for part in parts if part.ledger_id == ledger_id]))
                taken[ledger_id] = taken.get(ledger_id, BitMap()) | entries
                taken_back.append((ledger_id, entries))
            del self._taking[chunk_set]
        return taken_back

    def _unfinished(self) -> list[ChunkSet]:
        return [chunk_set for chunk_set in self._sets.values() if not chunk_set.whole]

    # --- what comes back

    def with_others(self, positions: Iterable[Position]) -> list[Position]:
        """`positions`, and all other chunks of the same messages: a client cannot use single chunks."""
        all_positions = dict.fromkeys(positions)
        for chunk_set in self._sets_of(list(all_positions)):
            all_positions.update(dict.fromkeys(chunk_set.positions.values()))
        return list(all_positions)

    def acknowledged(self, consumer: Consumer | None, ledger_id: int, entries: Sequence[int]) -> Sequence[int]:
        """`consumer` acknowledges `entries` of a ledger, and with them the other chunks of messages that were sent whole: returns
        all that are to be acknowledged."""
        if consumer is not None and consumer in self._taken:
            lost = self._taken[consumer].get(ledger_id, BitMap())
            entries = [entry for entry in entries if entry not in lost]
        named = [Position(ledger_id, entry) for entry in entries]
        sets = self._sets_of(named)
        if not sets:
            return entries
        more = [
            part.entry_id
            for chunk_set in sets
            if chunk_set.whole
            for part in chunk_set.positions.values()
            if part.ledger_id == ledger_id
        ]
        self._end_parts(named)
        self._forget_all([chunk_set for chunk_set in sets if chunk_set.whole])
        return list(dict.fromkeys([*entries, *more]))

    def acknowledged_up_to(self, mark: Position) -> None:
        """Costs what it forgets."""
        for lost in self._taken.values():
            for ledger_id in [lost_ledger_id for lost_ledger_id in lost if lost_ledger_id <= mark.ledger_id]:
                lost[ledger_id] -= lost[ledger_id] if ledger_id < mark.ledger_id else BitMap(range(mark.entry_id + 1))
        for ledger_id in [known_ledger_id for known_ledger_id in self._entries if known_ledger_id <= mark.ledger_id]:
            entries = self._entries[ledger_id]
            passed = entries.copy() if ledger_id < mark.ledger_id else entries & BitMap(range(mark.entry_id + 1))
            positions = [Position(ledger_id, entry) for entry in passed]
            sets = self._sets_of(positions)
            self._end_parts(positions)
            self._forget_all([chunk_set for chunk_set in sets if not chunk_set.known])

    def _end_parts(self, positions: Iterable[Position]) -> None:
        """These were acknowledged: nobody holds them any more, so they are not left out of a count either."""
        for position in positions:
            chunk_set = self._drop(position)
            if chunk_set is not None and chunk_set.uncounted:
                chunk_set.consumer.leave_uncounted(-1)
                chunk_set.uncounted -= 1

    def unfinished(self, before_ms: int, waiting_to: Position) -> list[Position]:
        """The chunks of messages of which nothing came since `before_ms` and something is missing. They are forgotten. What is
        missing may be among entries that wait to be sent, of which `waiting_to` is the last, or wait for their consumer."""
        positions: list[Position] = []
        stale = [chunk_set for chunk_set in self._unfinished() if chunk_set.last_ms < before_ms and not chunk_set.waiting]
        for chunk_set in stale:
            if max(chunk_set.positions.values()) > waiting_to:
                positions += chunk_set.positions.values()
                self._forget_all([chunk_set])
        return sorted(positions)

    def forget_consumer(self, consumer: Consumer) -> EntriesByLedger:
        """Everything that it has is sent again. Returns, as `forget`, the chunks of messages that it never had whole."""
        return self._forget_parts(list(self._by_consumer.get(consumer, ())))

    def left(self, consumer: Consumer) -> None:
        self.forget_consumer(consumer)
        self._taken.pop(consumer, None)

    def forget(self, consumer: Consumer, positions: Iterable[Position]) -> EntriesByLedger:
        """What `consumer` has of these is sent again. Returns the chunks among them of messages that it never had whole."""
        return self._forget_parts([chunk_set for chunk_set in self._sets_of(positions) if chunk_set.consumer is consumer])

    def _forget_parts(self, sets: list[ChunkSet]) -> EntriesByLedger:
        parts: EntriesByLedger = {}
        for chunk_set in sets:
            for position in () if chunk_set.whole else chunk_set.positions.values():
                parts.setdefault(position.ledger_id, BitMap()).add(position.entry_id)
        self._forget_all(sets)
        return parts

    def _sets_of(self, positions: Iterable[Position]) -> list[ChunkSet]:
        by_position = self._by_position
        return list({id(chunk_set): chunk_set for chunk_set in map(by_position.get, positions) if chunk_set is not None}.values())

    def _forget_all(self, sets: Iterable[ChunkSet]) -> None:
        for chunk_set in sets:
            self._forget(chunk_set)
        self.settle()

    def _forget(self, chunk_set: ChunkSet | None) -> None:
        """What raises here is done once more when the message is forgotten again: it is found until all is done."""
        if chunk_set is None:
            return
        for position in chunk_set.positions.values():
            if self._by_position.get(position) is chunk_set:
                self._drop(position)
        self._count(chunk_set)
        if chunk_set.waiting:
            self._waiting[chunk_set.consumer].pop(chunk_set)
            if not self._waiting[chunk_set.consumer]:
                del self._waiting[chunk_set.consumer]
            self._returned.append(chunk_set.waiting)
            chunk_set.waiting = {}
        of_consumer = self._by_consumer.get(chunk_set.consumer, {})
        of_consumer.pop(chunk_set, None)
        if not of_consumer:
            self._by_consumer.pop(chunk_set.consumer, None)
        if self._sets.get(chunk_set.message) is chunk_set:
            del self._sets[chunk_set.message]

    def _put(self, position: Position, chunk_set: ChunkSet) -> None:
        self._drop(position)
        self._by_position[position] = chunk_set
        chunk_set.known += 1
        self._entries.setdefault(position.ledger_id, BitMap()).add(position.entry_id)

    def _drop(self, position: Position) -> ChunkSet | None:
        """Returns whose it was."""
        chunk_set = self._by_position.pop(position, None)
        if chunk_set is not None:
            chunk_set.known -= 1
            entries = self._entries[position.ledger_id]
            entries.discard(position.entry_id)
            if not entries:
                del self._entries[position.ledger_id]
        return chunk_set

    def _count(self, chunk_set: ChunkSet) -> None:
        """Its chunks count from now on."""
        if chunk_set.uncounted:
            chunk_set.consumer.leave_uncounted(-chunk_set.uncounted)
            chunk_set.uncounted = 0
