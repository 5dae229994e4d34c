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
        held = self._sets.get(chunk.message)
        return None if held is None or not chunk.chunk_id else held.consumer

    def sent(self, consumer: Consumer, position: Position, chunk: Chunk, stored_ms: int, *, counted: bool) -> None:
        """`counted`: towards the limits on what `consumer` may hold. Call `settle` when everything is sent."""
        held = self._sets.get(chunk.message)
        if held is None or held.consumer is not consumer or held.chunks != chunk.chunks or not chunk.chunk_id:
            self._set_aside(held)
            held = self._sets[chunk.message] = ChunkSet(chunk.message, chunk.chunks, consumer)
            self._by_consumer.setdefault(consumer, {})[held] = None
        former = held.positions.get(chunk.chunk_id)
        if former is not None:
            self._drop(former)
        elif counted:
            consumer.leave_uncounted(1)
            held.uncounted += 1
        held.positions[chunk.chunk_id] = position
        held.last_ms = max(held.last_ms, stored_ms)
        self._put(position, held)
        if consumer in self._taken:
            self._taken[consumer].get(position.ledger_id, BitMap()).discard(position.entry_id)
        if held.whole:
            self._count(held)
        while len(self._by_position) > CHUNKS_MAX:
            self._forget(next(iter(self._sets.values())))

    def forget_oldest(self, size: int) -> None:
        """There is no memory for so many bytes of what is remembered: the oldest messages go."""
        chunks_left = max(CHUNKS_MIN, len(self._by_position) - -(-size // CHUNK_BYTES))
        while len(self._by_position) > chunks_left:
            self._forget(next(iter(self._sets.values())))
        self.settle()

    def _set_aside(self, held: ChunkSet | None) -> None:
        """The producer began this message anew: what was sent of it is a message of its own, which perhaps nobody completes."""
        if held is not None:
            del self._sets[held.message]
            held.message += b"%d:%d" % next(iter(held.positions.values()))
            self._sets[held.message] = held

    def not_sent(self, consumer: Consumer, position: Position, chunk: Chunk, *, counted: bool) -> None:
        """Takes back `sent`, also where that raised. The chunk is still to be sent to `consumer`."""
        held = self._sets.get(chunk.message)
        if held is None or held.consumer is not consumer:
            return
        if held.positions.get(chunk.chunk_id) == position:
            del held.positions[chunk.chunk_id]
            self._drop(position)
        if not held.positions:
            self._forget(held)
        elif counted and not held.whole:
            uncounted = sum(self._by_position.get(one) is held for one in held.positions.values())
            consumer.leave_uncounted(uncounted - held.uncounted)
            held.uncounted = uncounted

    # --- chunks that wait for their consumer

    def waits(self, consumer: Consumer) -> bool:
        """Whether chunks wait for it already: no others may be sent before them."""
        return consumer in self._waiting

    def wait(self, position: Position, chunk: Chunk) -> None:
        """The holder of the chunks before this one cannot take it now: see `resume`."""
        held = self._sets[chunk.message]
        self._waiting.setdefault(held.consumer, {})[held] = None
        held.waiting.setdefault(position.ledger_id, BitMap()).add(position.entry_id)

    def resume(self, consumer: Consumer) -> None:
        """It can take again what waits for it."""
        for held in self._waiting.pop(consumer, ()):
            self._returned.append(held.waiting)
            held.waiting = {}
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
        waiting = [held.waiting[ledger_id] for sets in self._waiting.values() for held in sets if ledger_id in held.waiting]
        return BitMap.union(BitMap(), *waiting)

    # --- messages that go to another consumer before they are whole

    def take_back(self, owner_of: Callable[[Position], Consumer | None]) -> list[tuple[int, BitMap]]:
        """What others than the owners have of messages that are not whole, by ledger: the owners are sent these from their first
        chunk on. Clients acknowledge parts of messages that they gave up waiting for: from those that lost one it means nothing."""
        found = []
        for held in dict.fromkeys([*self._taking, *self._unfinished()]):
            consumer = held.consumer
            parts = [one for one in held.positions.values() if one.entry_id in consumer.held.get(one.ledger_id, ())]
            if not parts or (held not in self._taking and owner_of(parts[0]) is consumer):
                self._taking.pop(held, None)
                continue
            self._taking[held] = None
            self._forget_all([held])
            taken = self._taken.setdefault(consumer, {})
            for ledger_id in {one.ledger_id for one in parts}:
                entries = consumer.release(ledger_id, BitMap([one.entry_id for one in parts if one.ledger_id == ledger_id]))
                taken[ledger_id] = taken.get(ledger_id, BitMap()) | entries
                found.append((ledger_id, entries))
            del self._taking[held]
        return found

    def _unfinished(self) -> list[ChunkSet]:
        return [held for held in self._sets.values() if not held.whole]

    # --- what comes back

    def with_others(self, positions: Iterable[Position]) -> list[Position]:
        """`positions`, and all other chunks of the same messages: a client cannot use single chunks."""
        found = dict.fromkeys(positions)
        for held in self._sets_of(list(found)):
            found.update(dict.fromkeys(held.positions.values()))
        return list(found)

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
        more = [one.entry_id for held in sets if held.whole for one in held.positions.values() if one.ledger_id == ledger_id]
        self._end_parts(named)
        self._forget_all([held for held in sets if held.whole])
        return list(dict.fromkeys([*entries, *more]))

    def acknowledged_up_to(self, mark: Position) -> None:
        """Costs what it forgets."""
        for lost in self._taken.values():
            for ledger_id in [one for one in lost if one <= mark.ledger_id]:
                lost[ledger_id] -= lost[ledger_id] if ledger_id < mark.ledger_id else BitMap(range(mark.entry_id + 1))
        for ledger_id in [one for one in self._entries if one <= mark.ledger_id]:
            entries = self._entries[ledger_id]
            passed = entries.copy() if ledger_id < mark.ledger_id else entries & BitMap(range(mark.entry_id + 1))
            positions = [Position(ledger_id, entry) for entry in passed]
            sets = self._sets_of(positions)
            self._end_parts(positions)
            self._forget_all([held for held in sets if not held.known])

    def _end_parts(self, positions: Iterable[Position]) -> None:
        """These were acknowledged: nobody holds them any more, so they are not left out of a count either."""
        for position in positions:
            held = self._drop(position)
            if held is not None and held.uncounted:
                held.consumer.leave_uncounted(-1)
                held.uncounted -= 1

    def unfinished(self, before_ms: int, waiting_to: Position) -> list[Position]:
        """The chunks of messages of which nothing came since `before_ms` and something is missing. They are forgotten. What is
        missing may be among entries that wait to be sent, of which `waiting_to` is the last, or wait for their consumer."""
        found: list[Position] = []
        for held in [one for one in self._unfinished() if one.last_ms < before_ms and not one.waiting]:
            if max(held.positions.values()) > waiting_to:
                found += held.positions.values()
                self._forget_all([held])
        return sorted(found)

    def forget_consumer(self, consumer: Consumer) -> EntriesByLedger:
        """Everything that it has is sent again. Returns, as `forget`, the chunks of messages that it never had whole."""
        return self._forget_parts(list(self._by_consumer.get(consumer, ())))

    def left(self, consumer: Consumer) -> None:
        self.forget_consumer(consumer)
        self._taken.pop(consumer, None)

    def forget(self, consumer: Consumer, positions: Iterable[Position]) -> EntriesByLedger:
        """What `consumer` has of these is sent again. Returns the chunks among them of messages that it never had whole."""
        return self._forget_parts([one for one in self._sets_of(positions) if one.consumer is consumer])

    def _forget_parts(self, sets: list[ChunkSet]) -> EntriesByLedger:
        parts: EntriesByLedger = {}
        for held in sets:
            for position in () if held.whole else held.positions.values():
                parts.setdefault(position.ledger_id, BitMap()).add(position.entry_id)
        self._forget_all(sets)
        return parts

    def _sets_of(self, positions: Iterable[Position]) -> list[ChunkSet]:
        by_position = self._by_position
        return list({id(held): held for held in map(by_position.get, positions) if held is not None}.values())

    def _forget_all(self, sets: Iterable[ChunkSet]) -> None:
        for held in sets:
            self._forget(held)
        self.settle()

    def _forget(self, held: ChunkSet | None) -> None:
        """What raises here is done once more when the message is forgotten again: it is found until all is done."""
        if held is None:
            return
        for position in held.positions.values():
            if self._by_position.get(position) is held:
                self._drop(position)
        self._count(held)
        if held.waiting:
            self._waiting[held.consumer].pop(held)
            if not self._waiting[held.consumer]:
                del self._waiting[held.consumer]
            self._returned.append(held.waiting)
            held.waiting = {}
        of_consumer = self._by_consumer.get(held.consumer, {})
        of_consumer.pop(held, None)
        if not of_consumer:
            self._by_consumer.pop(held.consumer, None)
        if self._sets.get(held.message) is held:
            del self._sets[held.message]

    def _put(self, position: Position, held: ChunkSet) -> None:
        self._drop(position)
        self._by_position[position] = held
        held.known += 1
        self._entries.setdefault(position.ledger_id, BitMap()).add(position.entry_id)

    def _drop(self, position: Position) -> ChunkSet | None:
        """Returns whose it was."""
        held = self._by_position.pop(position, None)
        if held is not None:
            held.known -= 1
            entries = self._entries[position.ledger_id]
            entries.discard(position.entry_id)
            if not entries:
                del self._entries[position.ledger_id]
        return held

    def _count(self, held: ChunkSet) -> None:
        """Its chunks count from now on."""
        if held.uncounted:
            held.consumer.leave_uncounted(-held.uncounted)
            held.uncounted = 0
