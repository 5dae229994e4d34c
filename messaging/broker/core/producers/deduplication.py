"""Deduplication of one topic: which sequence ids of which producer are stored already. Pure.

A producer that resends keeps its name and its sequence ids; an entry whose sequence id is not above the highest one taken from that
name is a duplicate. Two numbers a name: the highest *taken* (appended, perhaps not durable) decides; the highest *stored* is what a
reconnecting producer is told. A bounded window remembers where the last entries went, so that the receipt of a duplicate can carry
the id of the original; for older ones it is -1:-1, which clients take as success.

What names and remembered ids take is charged to an account, in steps. Where that is short the window shrinks, down to the last
entry of each name; then names go too, those unused longest first. A tenant that holds little of the account keeps `NAMES_KEPT` of
each topic, however full it is; one that holds more keeps one, which is then not charged: so none takes what is left for others.

The state is a cache of the log: a snapshot at a position, then `replay` of the blocks after it, gives it back. Replaying a block
that the state has seen changes nothing. So a snapshot may be packed in slices while blocks are stored: it carries the position at
which packing began, and blocks that were stored during it are replayed once more. Snapshot:
``version u8 = 2 | position i64 i64 | names u32: (length u16, name, highest i64, last used i64, progress)``. A length with the
highest bit set says that `progress` is there: ``sequence id i64, message u32, next chunk u32, time i64``. Version 1 had none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.producers.producer_sequences import (
    NO_PARTS,
    NOWHERE,
    ChunkPart,
    ChunkProgress,
    Highest,
    ProducerSequences,
)
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import EARLIEST, Position

VERSION = 2
VERSIONS_READ = (1, VERSION)
WINDOW_ENTRIES = 1_000  # a name; what a client may have in flight when its connection breaks
TOPIC_WINDOW_ENTRIES = 50_000  # shared by all names of a topic: with many of them each is remembered for less
NAMES_MAX = 100_000  # a topic; beyond it those unused longest go
NAMES_BYTES_MAX = 8 << 20  # of those names; with it a snapshot is 10 MB at the most
NAMES_KEPT = 100  # however little memory there is, for a tenant that holds little
NAME_BYTES = 512  # of a name that is known, beside its text: measured with 100,000 of them, each with one entry
ENTRY_BYTES = 24  # of a remembered entry
CHARGED_STEP_BYTES = 16 << 10  # and for small topics a sixteenth of what is charged
CHARGED_STEP_BYTES_MIN = 1 << 10
SLICE_NAMES = 1_000  # packed or read at once, in about a millisecond
FORGOTTEN_SHARE = 100  # one of so many at once, because finding them means looking at all
_HEAD = struct.Struct(">BqqI")
_LENGTH = struct.Struct(">H")
_NUMBERS = struct.Struct(">qq")
_PROGRESS = struct.Struct(">qIIq")
_WITH_PROGRESS = 1 << 15  # names are shorter


class Deduplication:
    """`charge` is what it holds of a memory account; None: nobody counts."""

    def __init__(self, charge: Charge | None = None) -> None:
        self.names: dict[bytes, ProducerSequences] = {}
        self.memory_bytes = 0
        self._names_bytes = 0
        self._charge = charge
        self._charged_bytes = 0
        self._step_bytes = CHARGED_STEP_BYTES_MIN
        self._window_max = WINDOW_ENTRIES
        self.snapshot_position = EARLIEST  # entries up to here are in the last stored snapshot; trimming stops there
        self.entries_since_snapshot = 0

    def highest_taken(self, name: bytes) -> int:
        """-1 for a name never seen: what PRODUCER_SUCCESS reports as last sequence id."""
        sequences = self.names.get(name)
        return sequences.taken if sequences is not None else -1

    def sift(
        self, name: bytes, sent: list[SendFrame], now_ms: int, parts: Mapping[SendFrame, ChunkPart] = NO_PARTS
    ) -> tuple[list[SendFrame], bool]:
        """The entries of one producer that are new, and whether any was a duplicate. `parts`: those that are chunks. Changes
        nothing: `took` does, once the log has taken the new ones."""
        sequences = self.names.get(name)
        taken = sequences.taken if sequences is not None else -1
        if not parts and sent[0].sequence_id > taken and _rising(sent):
            return sent, False
        highest = Highest(taken, sequences.taken_progress if sequences is not None else None)
        fresh = []
        for frame in sent:
            after = highest.after(frame, parts.get(frame), now_ms)
            if after is not None:
                highest = after
                fresh.append(frame)
        return fresh, len(fresh) != len(sent)

    def took(self, name: bytes, fresh: list[SendFrame], now_ms: int, parts: Mapping[SendFrame, ChunkPart] = NO_PARTS) -> None:
        """The log took `fresh`, what `sift` left of a block: from now on they are duplicates, though not stored yet."""
        sequences = self.names.get(name)
        if sequences is None:
            sequences = self._add(name, ProducerSequences(last_used_ms=now_ms))
            self._bound()
            self._adjust_charge()
        sequences.last_used_ms = now_ms
        if not fresh:
            return
        if parts or sequences.taken_progress is not None:
            self.memory_bytes -= sequences.progress_bytes
            sequences.take(fresh, parts, now_ms)
            self.memory_bytes += sequences.progress_bytes
        else:
            sequences.taken = max(sequences.taken, fresh[-1].sequence_id, fresh[-1].highest_sequence_id)

    def stored(
        self,
        name: bytes,
        sent: list[SendFrame],
        first: Position,
        now_ms: int,
        parts: Mapping[SendFrame, ChunkPart] = NO_PARTS,
    ) -> None:
        """`sent`, which were taken at `now_ms`, are durable at `first` and on. The first entry of a batch names it."""
        sequences = self.names.get(name)
        if sequences is None:  # forgotten meanwhile
            return
        ledger_id, window, remembered = first.ledger_id, self._window, sequences.remembered_entries
        for entry_id, frame in enumerate(sent[-window:], first.entry_id + max(0, len(sent) - window)):
            sequences.remember(frame.sequence_id, ledger_id, entry_id, window)
        self.memory_bytes += (sequences.remembered_entries - remembered) * ENTRY_BYTES
        if abs(self.memory_bytes - self._charged_bytes) >= self._step_bytes:
            self._adjust_charge()
        if parts or sequences.stored_progress is not None:
            self.memory_bytes -= sequences.progress_bytes
            sequences.store(sent, parts, now_ms)
            self.memory_bytes += sequences.progress_bytes
        else:
            sequences.stored = max(sequences.stored, sent[-1].sequence_id, sent[-1].highest_sequence_id)
        self.entries_since_snapshot += len(sent)

    def position_of(self, name: bytes, sequence_id: int, part: ChunkPart | None = None) -> Position:
        sequences = self.names.get(name)
        return sequences.position_of(sequence_id, part) if sequences is not None else NOWHERE

    def replay(
        self,
        name: bytes,
        sent: list[SendFrame],
        first: Position,
        broker_time_ms: int,
        parts: Mapping[SendFrame, ChunkPart] = NO_PARTS,
    ) -> None:
        """A block read back after the snapshot. Repeating one changes nothing."""
        if not name:
            return
        sequences = self.names.get(name) or self._add(name, ProducerSequences())
        window, remembered = self._window, sequences.remembered_entries
        sequences.last_used_ms = max(sequences.last_used_ms, broker_time_ms)
        for entry_id, frame in enumerate(sent, first.entry_id):
            if sequences.follows(frame.sequence_id, first.ledger_id, entry_id):
                sequences.remember(frame.sequence_id, first.ledger_id, entry_id, window)
        self.memory_bytes -= sequences.progress_bytes
        sequences.store(sent, parts, broker_time_ms)
        sequences.restart()
        self.memory_bytes += sequences.progress_bytes
        self.memory_bytes += (sequences.remembered_entries - remembered) * ENTRY_BYTES
        self._bound()
        self._adjust_charge()

    def forget_unused(self, before_ms: int) -> None:
        """Names that sent nothing since `before_ms`."""
        self._forget([name for name, sequences in self.names.items() if sequences.last_used_ms < before_ms])
        self._adjust_charge()

    def widen(self) -> None:
        """The window grows again where there is memory for twice as much."""
        if self._window_max < WINDOW_ENTRIES and (self._charge is None or self._charge.allows(self.memory_bytes)):
            self._window_max = min(WINDOW_ENTRIES, 2 * self._window_max)

    def close(self) -> None:
        """Gives back what it holds of the account; it is not used again. Idempotent."""
        if self._charge is not None:
            self._charge.end()
            self._charge = None

    @property
    def _window(self) -> int:
        """How many entries of each name are remembered."""
        return min(self._window_max, max(1, TOPIC_WINDOW_ENTRIES // len(self.names)))

    def _add(self, name: bytes, sequences: ProducerSequences) -> ProducerSequences:
        self.names[name] = sequences
        self._names_bytes += len(name)
        self.memory_bytes += NAME_BYTES + len(name) + sequences.progress_bytes
        return sequences

    def _forget(self, names: Iterable[bytes]) -> None:
        for name in names:
            sequences = self.names.pop(name)
            self._names_bytes -= len(name)
            self.memory_bytes -= NAME_BYTES + len(name) + sequences.remembered_entries * ENTRY_BYTES + sequences.progress_bytes

    def _bound(self) -> None:
        while len(self.names) > NAMES_MAX or self._names_bytes > NAMES_BYTES_MAX:
            self._forget_unused_longest(max(1, len(self.names) // FORGOTTEN_SHARE))

    def _forget_unused_longest(self, count: int) -> None:
        self._forget(nsmallest(count, self.names, key=lambda name: self.names[name].last_used_ms))

    def _adjust_charge(self) -> None:
        """Tells the account what changed by a step or more, and remembers less where it is short."""
        charge = self._charge
        if charge is None or abs(self.memory_bytes - self._charged_bytes) < self._step_bytes:
            return
        if not self._fits(charge):
            self._shrink(charge)
            if not self._fits(charge) and not charge.holds_little:
                return
        charge.change(self.memory_bytes - self._charged_bytes)
        self._charged_bytes = self.memory_bytes
        self._step_bytes = min(CHARGED_STEP_BYTES, max(CHARGED_STEP_BYTES_MIN, self.memory_bytes // 16))

    def _fits(self, charge: Charge) -> bool:
        more = self.memory_bytes - self._charged_bytes
        return more <= 0 or charge.allows(more)

    def _shrink(self, charge: Charge) -> None:
        while self._window > 1 and not self._fits(charge):
            self._window_max = self._window // 2
            for sequences in self.names.values():
                if sequences.remembered_entries > self._window_max:
                    self.memory_bytes -= (sequences.remembered_entries - self._window_max) * ENTRY_BYTES
                    sequences.keep_last(self._window_max)
        kept = NAMES_KEPT if charge.holds_little else 1
        while len(self.names) > kept and not self._fits(charge):
            more = self.memory_bytes - self._charged_bytes
            count = max(more // NAME_BYTES + 1, len(self.names) // FORGOTTEN_SHARE)
            self._forget_unused_longest(min(count, len(self.names) - kept))

    # --- storing

    def snapshot(self, position: Position) -> bytes:
        """The state as of `position`, the last confirmed entry: only what is stored counts."""
        return b"".join(self.snapshot_slices(position))

    def snapshot_slices(self, position: Position) -> Iterator[bytes]:
        """The pieces of a snapshot; blocks may be stored between two of them."""
        names = list(self.names.items())
        yield _HEAD.pack(VERSION, *position, len(names))
        for start in range(0, len(names), SLICE_NAMES):
            yield b"".join(_packed(name, sequences) for name, sequences in names[start : start + SLICE_NAMES])

    @classmethod
    def restore(cls, state: bytes | None) -> Deduplication:
        """Raises `ValueError` for bytes of another version, and `struct.error` for some that are cut short."""
        made = cls()
        for _ in made.restore_slices(state):
            pass
        return made

    def restore_slices(self, state: bytes | None) -> Iterator[None]:
        """Reads a snapshot into what knows nothing yet, a slice at a time. Raises as `restore` does."""
        if not state:
            return
        version, ledger_id, entry_id, count = _HEAD.unpack_from(state)
        if version not in VERSIONS_READ:
            raise ValueError(f"deduplication snapshot version {version} is unknown; this release reads {VERSIONS_READ}")
        at = _HEAD.size
        for number in range(1, count + 1):
            (length,) = _LENGTH.unpack_from(state, at)
            length, with_progress = length & ~_WITH_PROGRESS, length & _WITH_PROGRESS
            at += _LENGTH.size
            name = state[at : at + length]
            highest, last_used_ms = _NUMBERS.unpack_from(state, at + length)
            at += length + _NUMBERS.size
            progress = None
            if with_progress:
                progress = ChunkProgress(*_PROGRESS.unpack_from(state, at))
                at += _PROGRESS.size
            self._add(name, ProducerSequences(highest, last_used_ms, progress))
            if number % SLICE_NAMES == 0:
                self._bound()
                self._adjust_charge()
                yield
        self._bound()
        self._adjust_charge()
        self.snapshot_position = Position(ledger_id, entry_id)


def _packed(name: bytes, sequences: ProducerSequences) -> bytes:
    numbers, progress = _NUMBERS.pack(sequences.stored, sequences.last_used_ms), sequences.stored_progress
    if progress is None:
        return _LENGTH.pack(len(name)) + name + numbers
    return _LENGTH.pack(len(name) | _WITH_PROGRESS) + name + numbers + _PROGRESS.pack(*progress)


def _rising(sent: list[SendFrame]) -> bool:
    """Whether every entry begins above the one before: nearly always, so that a block is decided at once."""
    previous = -1
    for frame in sent:
        if frame.sequence_id <= previous:
            return False
        previous = max(frame.sequence_id, frame.highest_sequence_id)
    return True
