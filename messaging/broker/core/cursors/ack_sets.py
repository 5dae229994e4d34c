"""Pulsar's ack sets: entries of which only some messages are acknowledged. Pure.

64-bit words, lowest first; bit i is set while message i is *un*acknowledged. Missing words at the end are zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ENTRY_IDS
from messaging.limits.sizes import ACK_SET_WORDS_MAX
from messaging.storage.ledger_store import Position

ENTRY_BYTES = 320  # memory that one takes in addition to its bits
_WORD = (1 << 64) - 1
_WORD_BYTES = 8


def bits_of(words: Sequence[int]) -> int:
    """Words as the wire has them, signed or not. Raises `ValueError` if there are more than a batch can have."""
    if len(words) > ACK_SET_WORDS_MAX:
        raise ValueError(f"an ack set of {len(words)} words is larger than any batch: at most {ACK_SET_WORDS_MAX}")
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *(word & _WORD for word in words)), "little")


def clipped(words: Sequence[int], messages: int) -> tuple[int, ...]:
    """An ack set without bits for messages that a batch of this size does not have; empty if it leaves all of them unacknowledged.
    Raises `ValueError`."""
    whole = (1 << messages) - 1
    bits, count = bits_of(words) & whole, (messages + 63) // 64
    return () if bits == whole else struct.unpack(f"<{count}Q", bits.to_bytes(_WORD_BYTES * count, "little"))


class AckSets:
    """By entry. Those before a position, or in a range of entries, are found without looking at the others."""

    __slots__ = ("_entries", "_words", "memory_bytes")

    def __init__(self, words: dict[Position, bytes] | None = None) -> None:
        self._words: dict[Position, bytes] = (
            {} if words is None else words
        )  # packed, in the order of bytes that `int.from_bytes` reads as little
        self._entries: dict[int, BitMap] = {}  # by ledger, those of `_words`
        self.memory_bytes = 0

    def __len__(self) -> int:
        return len(self._words)

    def copy(self) -> AckSets:
        copied = AckSets(dict(self._words))
        copied._entries = {ledger_id: entries.copy() for ledger_id, entries in self._entries.items()}
        copied.memory_bytes = self.memory_bytes
        return copied

    def has(self, position: Position) -> bool:
        return position in self._words

    def get(self, position: Position) -> tuple[int, ...] | None:
        """Its words, as many as it was first given."""
        data = self._words.get(position)
        return None if data is None else struct.unpack(f"<{len(data) // _WORD_BYTES}Q", data)

    def bits(self, position: Position) -> int | None:
        data = self._words.get(position)
        return None if data is None else int.from_bytes(data, "little")

    def items(self) -> Iterator[tuple[Position, tuple[int, ...]]]:
        for position, data in self._words.items():
            yield position, struct.unpack(f"<{len(data) // _WORD_BYTES}Q", data)

    def entries_in(self, ledger_id: int, first: int, last: int) -> list[int]:
        """The entries from `first` to `last` of a ledger that have one, in order."""
        entries = self._entries.get(ledger_id)
        if entries is None or not entries.range_cardinality(first, last + 1):
            return []
        return list(entries & BitMap(range(first, last + 1)))

    def count_after(self, position: Position) -> int:
        """How many entries after `position` have one."""
        ledger_id, entry_id = position
        return sum(
            entries.range_cardinality(entry_id + 1 if ledger == ledger_id else 0, ENTRY_IDS)
            for ledger, entries in self._entries.items()
            if ledger >= ledger_id
        )

    def words_with(self, position: Position, bits: int, count: int) -> tuple[int, ...]:
        """What `put` would keep: `bits` in as many words as the entry has, or `count` if it has none yet."""
        words = self._words.get(position)
        count = max(count if words is None else len(words) // _WORD_BYTES, (bits.bit_length() + 63) // 64)
        return struct.unpack(f"<{count}Q", bits.to_bytes(_WORD_BYTES * count, "little"))

    def put(self, position: Position, words: Sequence[int]) -> None:
        """Unsigned words, from `words_with` or from storage."""
        former = self._words.get(position)
        if former is None:
            entries = self._entries.get(position.ledger_id)
            if entries is None:
                entries = self._entries[position.ledger_id] = BitMap()
            entries.add(position.entry_id)
            self.memory_bytes += ENTRY_BYTES
        else:
            self.memory_bytes -= len(former)
        self._words[position] = data = struct.pack(f"<{len(words)}Q", *words)
        self.memory_bytes += len(data)

    def drop(self, ledger_id: int, entries: BitMap) -> None:
        """These entries are acknowledged."""
        partly_acked = self._entries.get(ledger_id)
        if partly_acked is not None:
            self._drop(ledger_id, partly_acked & entries)

    def drop_range(self, ledger_id: int, first: int, last: int) -> None:
        partly_acked = self._entries.get(ledger_id)
        if partly_acked is not None and partly_acked.range_cardinality(first, last + 1):
            self._drop(ledger_id, partly_acked & BitMap(range(first, last + 1)))

    def drop_up_to(self, mark: Position, former_ledger_id: int) -> None:
        """Everything up to `mark`, which moved there from `former_ledger_id`, is acknowledged."""
        if former_ledger_id != mark.ledger_id:
            self.drop_ledgers_before(mark.ledger_id)
        partly_acked = self._entries.get(mark.ledger_id)
        if partly_acked is not None and partly_acked.min() <= mark.entry_id:
            self._drop(mark.ledger_id, partly_acked & BitMap(range(partly_acked.min(), mark.entry_id + 1)))

    def drop_ledgers_before(self, ledger_id: int) -> None:
        for gone in [earlier for earlier in self._entries if earlier < ledger_id]:
            self._drop(gone, self._entries[gone].copy())

    def clear(self) -> None:
        self._words.clear()
        self._entries.clear()
        self.memory_bytes = 0

    def _drop(self, ledger_id: int, entries: BitMap) -> None:
        for entry_id in entries:
            self.memory_bytes -= ENTRY_BYTES + len(self._words.pop(Position(ledger_id, entry_id)))
        left = self._entries[ledger_id] - entries
        if left:
            self._entries[ledger_id] = left
        else:
            del self._entries[ledger_id]
