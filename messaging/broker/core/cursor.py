"""What a subscription has acknowledged: a mark-delete position and, beyond it, bitmaps a ledger and ack sets of batches.

Everything at or before `mark_delete` is acknowledged. Beyond it `holes` has the individually acknowledged entries, compressed, so
that a million of them cost about what one bitmap costs; `batches` has entries of which only some messages are acknowledged, as
Pulsar's ack sets: 64-bit words, bit i set = message i still *un*acknowledged. Pure; a change comes with the delta that repeats it
on another copy, which is what the cursor log stores.

Snapshot:  version u8 = 1 | mark-delete i64 i64 | bitmaps u32: (ledger i64, length u32, roaring)
           | batches u32: (i64 i64, words u16, u64*)
Delta:     kind u8 | body, see `Delta`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from pyroaring import BitMap

from messaging.broker.core.bitmaps import run_length, runs_of
from messaging.storage.chain import Chain
from messaging.storage.seam import EARLIEST, Position

VERSION = 1
WORDS_MAX = 15_625  # of an ack set: a batch has at most a million messages
_HEAD = struct.Struct(">Bqq")
_POSITION = struct.Struct(">qq")
_COUNT = struct.Struct(">I")
_BITMAP = struct.Struct(">qI")
_WORDS = struct.Struct(">H")


class Delta:
    """Kinds of deltas, and what follows the kind. Positions are i64 i64."""

    ENTRIES = 1  # ledger i64, entries u32* in the byte order of the machine
    UP_TO = 2  # position
    BATCH = 3  # position, words u64*
    RESET = 4  # position


_ENTRIES_KIND = bytes((Delta.ENTRIES,))
_ENTRIES_HEAD = 9  # kind and ledger


class Cursor:
    __slots__ = ("batches", "holes", "mark_delete")

    def __init__(self, mark_delete: Position = EARLIEST) -> None:
        self.mark_delete = mark_delete
        self.holes: dict[int, BitMap] = {}
        self.batches: dict[Position, list[int]] = {}

    # --- asking

    def acknowledged(self, position: Position) -> bool:
        if position <= self.mark_delete:
            return True
        bitmap = self.holes.get(position.ledger_id)
        return bitmap is not None and position.entry_id in bitmap

    def open_runs(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """The unacknowledged stretches (first, last) within entries `first`..`last` of a ledger."""
        if self.mark_delete.ledger_id == ledger_id:
            first = max(first, self.mark_delete.entry_id + 1)
        elif self.mark_delete.ledger_id > ledger_id:
            return []
        if first > last:
            return []
        bitmap = self.holes.get(ledger_id)
        if bitmap is None or not bitmap.range_cardinality(first, last + 1):
            return [(first, last)]
        missing = BitMap(range(first, last + 1)) - bitmap
        return runs_of(missing)

    def backlog_entries(self, chain: Chain) -> int:
        """Entries that exist and are not wholly acknowledged."""
        beyond = chain.entries - chain.count_up_to(self.mark_delete)
        return beyond - sum(len(bitmap) for bitmap in self.holes.values())

    # --- acknowledging; each returns the delta to store, or b"" if nothing changed

    def acknowledge(self, ledger_id: int, entries: Sequence[int], chain: Chain) -> bytes:
        """Whole entries of one ledger, in any order. Ids that were never confirmed are passed over, as Pulsar does."""
        limit = chain.last_of(ledger_id)
        mark = self.mark_delete
        floor = mark.entry_id if mark.ledger_id == ledger_id else -1 if mark.ledger_id < ledger_id else limit
        fresh = [entry for entry in entries if floor < entry <= limit]
        if not fresh:
            return b""
        bitmap = self.holes.get(ledger_id)
        if bitmap is None:
            if mark.ledger_id == ledger_id and fresh[0] == floor + 1 and _contiguous(fresh):
                self.mark_delete = Position(ledger_id, fresh[-1])
                self._advance(chain)
                return self._entries_delta(ledger_id, fresh)
            bitmap = self.holes[ledger_id] = BitMap()
        before = len(bitmap)
        bitmap.update(fresh)
        if len(bitmap) == before:
            return b""
        self._advance(chain)
        return self._entries_delta(ledger_id, fresh)

    def acknowledge_up_to(self, position: Position, chain: Chain) -> bytes:
        """Everything up to and including `position` (cumulative acknowledgement, expiry, skipping)."""
        if not _gone(position.ledger_id, chain):
            position = min(position, chain.last)
        if position <= self.mark_delete:
            return b""
        self.mark_delete = position
        self._advance(chain)
        return bytes((Delta.UP_TO,)) + _POSITION.pack(*self.mark_delete)

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int], chain: Chain) -> tuple[bytes, bool]:
        """Some messages of one entry: bits still set in `ack_set` stay open. Returns (delta, the whole entry is done)."""
        if self.acknowledged(position) or not chain.holds(position) or len(ack_set) > WORDS_MAX:
            return b"", self.acknowledged(position)
        words = [word & 0xFFFFFFFFFFFFFFFF for word in ack_set]
        held = self.batches.get(position)
        if held is not None:
            words = [old & new for old, new in zip(held, words, strict=False)]
        if not any(words):
            return self.acknowledge(position.ledger_id, (position.entry_id,), chain), True
        if words == held:
            return b"", False
        self.batches[position] = words
        return bytes((Delta.BATCH,)) + _POSITION.pack(*position) + struct.pack(f">{len(words)}Q", *words), False

    def reset(self, mark_delete: Position) -> bytes:
        """Seek: everything after `mark_delete` is unacknowledged again."""
        self.mark_delete = mark_delete
        self.holes.clear()
        self.batches.clear()
        return bytes((Delta.RESET,)) + _POSITION.pack(*mark_delete)

    def _entries_delta(self, ledger_id: int, entries: list[int]) -> bytes:
        if self.batches:
            for entry in entries:
                self.batches.pop(Position(ledger_id, entry), None)
        packed = array("I", entries)
        return bytes((Delta.ENTRIES,)) + ledger_id.to_bytes(8, "big") + packed.tobytes()

    def _advance(self, chain: Chain) -> None:
        """Moves mark-delete over what became contiguous, into the next ledgers too, and forgets what lies behind it."""
        ledger_id, entry_id = self.mark_delete
        if ledger_id < 0 and chain.first_id >= 0:
            ledger_id, entry_id = chain.first_id, -1
        while True:
            bitmap = self.holes.get(ledger_id)
            if bitmap is not None:
                run = run_length(bitmap, entry_id + 1)
                entry_id += run
                bitmap.remove_range(0, entry_id + 1)
                if not bitmap:
                    del self.holes[ledger_id]
            if entry_id >= 0 and (ledger_id, entry_id) > self.mark_delete:
                self.mark_delete = Position(ledger_id, entry_id)
            if entry_id < chain.last_of(ledger_id) or not chain.ends(ledger_id):
                break
            following = chain.next_after(Position(ledger_id, entry_id))
            if following.ledger_id == ledger_id or following.ledger_id not in self.holes:
                break
            ledger_id, entry_id = following.ledger_id, -1
        for old in [held for held in self.holes if held < self.mark_delete.ledger_id]:
            del self.holes[old]
        if self.batches:
            for position in [held for held in self.batches if held <= self.mark_delete]:
                del self.batches[position]

    # --- storing

    def snapshot(self) -> bytes:
        parts = [_HEAD.pack(VERSION, *self.mark_delete), _COUNT.pack(len(self.holes))]
        for ledger_id, bitmap in self.holes.items():
            bitmap.run_optimize()
            data = bitmap.serialize()
            parts += (_BITMAP.pack(ledger_id, len(data)), data)
        parts.append(_COUNT.pack(len(self.batches)))
        for position, words in self.batches.items():
            parts.append(_POSITION.pack(*position) + struct.pack(f">H{len(words)}Q", len(words), *words))
        return b"".join(parts)

    @classmethod
    def restore(cls, mark_delete: Position, state: bytes) -> Cursor:
        """From a snapshot; from `mark_delete` alone where none was ever taken. Raises `ValueError` for bytes that are none."""
        cursor = cls(mark_delete)
        if state:
            try:
                cursor._restore(state)
            except struct.error as error:
                raise ValueError(f"a cursor snapshot of {len(state)} bytes is cut short: {error}") from None
        return cursor

    def _restore(self, state: bytes) -> None:
        version, ledger_id, entry_id = _HEAD.unpack_from(state)
        if version != VERSION:
            raise ValueError(f"cursor snapshot version {version} is not known; this build reads {VERSION}")
        self.mark_delete = Position(ledger_id, entry_id)
        at = _HEAD.size
        (count,) = _COUNT.unpack_from(state, at)
        at += _COUNT.size
        for _ in range(count):
            ledger_id, length = _BITMAP.unpack_from(state, at)
            at += _BITMAP.size
            if at + length > len(state):
                raise ValueError(f"a cursor snapshot of {len(state)} bytes is cut short within a bitmap")
            self.holes[ledger_id] = BitMap.deserialize(state[at : at + length])
            at += length
        (count,) = _COUNT.unpack_from(state, at)
        at += _COUNT.size
        for _ in range(count):
            position = Position(*_POSITION.unpack_from(state, at))
            at += _POSITION.size
            (words,) = _WORDS.unpack_from(state, at)
            at += _WORDS.size
            self.batches[position] = list(struct.unpack_from(f">{words}Q", state, at))
            at += 8 * words

    def repeat(self, delta: bytes, chain: Chain) -> None:
        """Applies a stored delta. Repeating one twice changes nothing, so that a replay may begin early. Raises `ValueError`."""
        kind, body = delta[0] if delta else 0, delta[1:]
        if len(body) < (8 if kind == Delta.ENTRIES else 16):
            raise ValueError(f"a cursor delta of kind {kind} and {len(delta)} bytes is cut short")
        if kind == Delta.ENTRIES:
            entries = array("I")
            entries.frombytes(body[8:])
            self.acknowledge(int.from_bytes(body[:8], "big"), entries.tolist(), chain)
        elif kind == Delta.UP_TO:
            self.acknowledge_up_to(Position(*_POSITION.unpack(body)), chain)
        elif kind == Delta.BATCH:
            words = struct.unpack(f">{(len(body) - 16) // 8}Q", body[16:])
            self.acknowledge_batch(Position(*_POSITION.unpack(body[:16])), words, chain)
        elif kind == Delta.RESET:
            self.reset(Position(*_POSITION.unpack(body)))
        else:
            raise ValueError(f"cursor delta kind {kind} is not known")
        for ledger_id in [held for held in self.holes if _gone(held, chain)]:
            del self.holes[ledger_id]
        for position in [held for held in self.batches if _gone(held.ledger_id, chain)]:
            del self.batches[position]


def merged(deltas: Iterable[bytes]) -> Iterator[bytes]:
    """The same deltas with neighbours that acknowledge entries of one ledger made one: a replay of 100,000 acknowledgements
    is then a few calls instead of as many."""
    run: list[bytes] = []
    for delta in deltas:
        joins = delta[:1] == _ENTRIES_KIND and (not run or run[0][:_ENTRIES_HEAD] == delta[:_ENTRIES_HEAD])
        if run and not joins:
            yield run[0] + b"".join(one[_ENTRIES_HEAD:] for one in run[1:])
            run = []
        if delta[:1] == _ENTRIES_KIND:
            run.append(delta)
        else:
            yield delta
    if run:
        yield run[0] + b"".join(one[_ENTRIES_HEAD:] for one in run[1:])


def _contiguous(entries: list[int]) -> bool:
    return entries[-1] - entries[0] + 1 == len(entries) and all(a < b for a, b in pairwise(entries))


def _gone(ledger_id: int, chain: Chain) -> bool:
    """Retention dropped this ledger: everything in it was acknowledged, whatever an older snapshot says."""
    return ledger_id < chain.first_id
