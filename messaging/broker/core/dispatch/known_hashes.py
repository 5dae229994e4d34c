"""The key hashes of entries that consumers hold, or that wait for them. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from pyroaring import BitMap

PRUNE_AT = 1 << 18  # bytes
SPARSE = 25  # an entry in a dict takes about as much memory as so many in an array
HASH_BYTES = 4
BLOCK_BYTES = 200


class _Ledger:
    __slots__ = ("firsts", "hashes")

    def __init__(self) -> None:
        self.firsts: list[int] = []  # entries with which the blocks begin, in order
        self.hashes: list[array[int] | dict[int, int]] = []  # of each block, by the index of the entry in it


class KnownHashes:
    """`keep` is told of whole blocks; `prune` forgets those of which nothing is needed any more."""

    __slots__ = ("_ledgers", "_prune_at", "memory_bytes")

    def __init__(self) -> None:
        self._ledgers: dict[int, _Ledger] = {}
        self._prune_at = PRUNE_AT
        self.memory_bytes = 0  # of all that is kept; a block of one entry costs far more than the hash in it

    def keep(self, ledger_id: int, first_entry: int, hashes: array[int]) -> None:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            ledger = self._ledgers[ledger_id] = _Ledger()
        firsts = ledger.firsts
        if not firsts or first_entry > firsts[-1]:
            firsts.append(first_entry)
            ledger.hashes.append(hashes)
        else:
            at = bisect_left(firsts, first_entry)
            if firsts[at] == first_entry:
                self.memory_bytes -= _size(ledger.hashes[at])
                ledger.hashes[at] = hashes
            else:
                firsts.insert(at, first_entry)
                ledger.hashes.insert(at, hashes)
        self.memory_bytes += len(hashes) * HASH_BYTES + BLOCK_BYTES

    def of(self, ledger_id: int, entries: BitMap) -> Iterator[tuple[int, int]]:
        """(entry, hash) of entries that are kept, in order."""
        if not entries:
            return
        ledger = self._ledgers[ledger_id]
        firsts = ledger.firsts
        stop = -1
        for entry in entries:
            if entry >= stop:
                at = bisect_right(firsts, entry) - 1
                first, hashes = firsts[at], ledger.hashes[at]
                stop = firsts[at + 1] if at + 1 < len(firsts) else 1 << 32
            yield entry, hashes[entry - first]

    @property
    def to_be_pruned(self) -> bool:
        return self.memory_bytes > self._prune_at

    def prune(self, needed: Mapping[int, BitMap]) -> None:
        """Keeps the hashes of the entries in `needed`, by ledger."""
        before, self._ledgers, self.memory_bytes = self._ledgers, {}, 0
        for ledger_id, ledger in before.items():
            entries = needed.get(ledger_id)
            if not entries:
                continue
            kept = self._ledgers[ledger_id] = _Ledger()
            for index, first in enumerate(ledger.firsts):
                stop = ledger.firsts[index + 1] if index + 1 < len(ledger.firsts) else 1 << 32
                hashes = ledger.hashes[index]
                count = entries.range_cardinality(first, stop)
                if not count:
                    continue
                if count * SPARSE < len(hashes) or isinstance(hashes, dict):
                    there = entries & BitMap(range(first, min(stop, entries.max() + 1)))
                    hashes = {entry - first: hashes[entry - first] for entry in there}
                kept.firsts.append(first)
                kept.hashes.append(hashes)
                self.memory_bytes += _size(hashes)
        self._prune_at = max(PRUNE_AT, 2 * self.memory_bytes)

    def clear(self) -> None:
        self._ledgers.clear()
        self.memory_bytes = 0
        self._prune_at = PRUNE_AT


def _size(hashes: array[int] | dict[int, int]) -> int:
    return len(hashes) * HASH_BYTES * (SPARSE if isinstance(hashes, dict) else 1) + BLOCK_BYTES
