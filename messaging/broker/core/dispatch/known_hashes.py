"""The key hashes of entries that consumers hold, or that wait for them. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from pyroaring import BitMap

PRUNE_AT = 1 << 18  # bytes
SPARSE = 25  # an entry in a dict takes about as much memory as so many in an array
HASH_BYTES = 4
BLOCK_BYTES = 200


class _Ledger:
    """A hash is in the array of its block, or single, or both: the hash of an entry never changes. Blocks never overlap."""

    __slots__ = ("firsts", "hashes", "single")

    def __init__(self) -> None:
        self.firsts: list[int] = []  # entries with which the blocks begin, in order
        self.hashes: list[array[int]] = []  # of each block, by the index of the entry in it
        self.single: dict[int, int] = {}  # entry -> hash, where the others of its block are not needed

    @property
    def memory_bytes(self) -> int:
        entries = sum(map(len, self.hashes)) + SPARSE * len(self.single)
        return HASH_BYTES * entries + BLOCK_BYTES * len(self.hashes)

    def needed(self, entries: BitMap) -> _Ledger:
        """What is kept of `entries`: blocks of which little is needed leave single entries."""
        kept = _Ledger()
        kept.single = {entry: key_hash for entry, key_hash in self.single.items() if entry in entries}
        for first, hashes in zip(self.firsts, self.hashes, strict=True):
            count = entries.range_cardinality(first, first + len(hashes))
            if count * SPARSE < len(hashes):
                there = entries & BitMap(range(first, first + len(hashes))) if count else ()
                kept.single.update((entry, hashes[entry - first]) for entry in there)
            elif count:
                kept.firsts.append(first)
                kept.hashes.append(hashes)
        return kept


class KnownHashes:
    """`keep` is told of whole blocks, `keep_single` of entries from many of them; `prune` forgets what is not needed any more."""

    __slots__ = ("_ledgers", "_prune_at", "memory_bytes")

    def __init__(self) -> None:
        self._ledgers: dict[int, _Ledger] = {}
        self._prune_at = PRUNE_AT
        self.memory_bytes = 0  # of all that is kept; a block of one entry costs far more than the hash in it

    def keep(self, ledger_id: int, first_entry: int, hashes: array[int]) -> None:
        ledger = self._ledgers.setdefault(ledger_id, _Ledger())
        at = bisect_right(ledger.firsts, first_entry)
        if at and ledger.firsts[at - 1] == first_entry:
            return  # a block is the same whenever it is read
        ledger.firsts.insert(at, first_entry)
        ledger.hashes.insert(at, hashes)
        self.memory_bytes += len(hashes) * HASH_BYTES + BLOCK_BYTES

    def keep_single(self, ledger_id: int, entries: Sequence[int], hashes: Sequence[int]) -> None:
        single = self._ledgers.setdefault(ledger_id, _Ledger()).single
        before = len(single)
        single.update(zip(entries, hashes, strict=True))
        self.memory_bytes += (len(single) - before) * HASH_BYTES * SPARSE

    def of(self, ledger_id: int, entries: BitMap) -> Iterator[tuple[int, int]]:
        """(entry, hash) of entries that are kept, in order."""
        if not entries:
            return
        ledger = self._ledgers[ledger_id]
        firsts, single = ledger.firsts, ledger.single
        first = stop = following = -1  # of the block that was looked at last, and where the next one begins
        hashes: array[int] = array("I")
        for entry in entries:
            if entry >= following:
                at = bisect_right(firsts, entry)
                following = firsts[at] if at < len(firsts) else 1 << 32
                first, hashes = (firsts[at - 1], ledger.hashes[at - 1]) if at else (0, array("I"))
                stop = first + len(hashes)
            yield entry, hashes[entry - first] if entry < stop else single[entry]

    @property
    def to_be_pruned(self) -> bool:
        return self.memory_bytes > self._prune_at

    def prune(self, needed: Mapping[int, BitMap]) -> None:
        """Keeps the hashes of the entries in `needed`, by ledger."""
        kept = {ledger_id: ledger.needed(needed[ledger_id]) for ledger_id, ledger in self._ledgers.items() if needed.get(ledger_id)}
        self._ledgers, self.memory_bytes = kept, sum(ledger.memory_bytes for ledger in kept.values())
        self._prune_at = max(PRUNE_AT, 2 * self.memory_bytes)

    def clear(self) -> None:
        self._ledgers.clear()
        self.memory_bytes = 0
        self._prune_at = PRUNE_AT
