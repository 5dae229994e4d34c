"""Reading ledgers on bookies: which add holds an entry, and blocks from there on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from messaging.bookkeeper.errors import BookkeeperError, CorruptEntry
from messaging.storage.bookkeeper.account_bytes import AccountBytes
from messaging.storage.bookkeeper.block_format import StoredBlock, decode
from messaging.storage.bookkeeper.known_blocks import KnownBlocks, ReadEnd
from messaging.storage.bookkeeper.store_errors import told
from messaging.storage.caching_store import CacheAccount
from messaging.storage.ledger_store import Block, Corrupt, NoSuchEntry, StoreError

LEDGERS_MAX = 1024  # of which something is known
CACHE_BYTES_MAX = 16 << 20
KNOWN_BYTES_MAX = 48 << 20
CACHE_PART = 8  # of an account, at most, for blocks that are kept, and as much for what is known of ledgers
RESUME_BLOCKS_MAX = 64  # that are tried behind one that is lost
BLOCKS_AT_ONCE_MAX = 256
FORECAST_READS_MAX = 3  # until a block is found with which a read ends


class Source(NamedTuple):
    """What may be read of a ledger now. `payloads(first, last, bytes_max)`: of the adds from `first` to `last`, at least
    one; `bytes_max` None: all of them."""

    last_block: int
    last_entry: int
    sparse: bool
    payloads: Callable[[int, int, int | None], Awaitable[Sequence[bytes]]]


class BlockReads:
    """What is remembered of reads, within bounds: where blocks are, and those that were read and not asked for."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, KnownBlocks] = OrderedDict()
        self._cached: OrderedDict[tuple[int, int], StoredBlock] = OrderedDict()
        self._cached_bytes = AccountBytes()
        self._cache_bytes_max = CACHE_BYTES_MAX
        self._known_bytes = AccountBytes()
        self._known_bytes_max = KNOWN_BYTES_MAX
        self._known_sizes: dict[int, int] = {}  # as they are counted

    def cache_in(self, account: CacheAccount) -> None:
        """See `CachingStore`."""
        self._cache_bytes_max = min(CACHE_BYTES_MAX, account.limit_bytes // CACHE_PART)
        self._known_bytes_max = min(KNOWN_BYTES_MAX, account.limit_bytes // CACHE_PART)
        self._cached_bytes.count_in(account)
        self._known_bytes.count_in(account)
        self._shrink_cached(self._cached_bytes.total - self._cache_bytes_max)
        self._shrink_known(self._known_bytes.total - self._known_bytes_max)

    def shrink(self, size: int) -> int:
        """Evicts at least so many bytes, as far as there are so many: blocks that were kept first, then what is known of ledgers
        that were not read for longest. Returns how many are left to be evicted."""
        return self._shrink_known(self._shrink_cached(size))

    def _shrink_cached(self, size: int) -> int:
        while size > 0 and self._cached:
            size -= self._evicted(next(iter(self._cached)))[1]
        return size

    def _shrink_known(self, size: int) -> int:
        while size > 0 and self._known:
            size -= self._forget_known(next(iter(self._known)))
        return size

    def known(self, ledger_id: int, sparse: bool = False) -> KnownBlocks:
        known = self._known.get(ledger_id)
        if known is None:
            known = self._known[ledger_id] = KnownBlocks(sparse)
            if len(self._known) > LEDGERS_MAX:
                self._forget_known(next(iter(self._known)))
            self.count(ledger_id, known)
        if ledger_id in self._known:
            self._known.move_to_end(ledger_id)
        return known

    def count(self, ledger_id: int, known: KnownBlocks) -> None:
        """After it has changed. A reader may still use what is forgotten here; that counts in its read."""
        if self._known.get(ledger_id) is not known:
            return
        more = known.size_bytes - self._known_sizes.get(ledger_id, 0)
        if more:
            self._known_sizes[ledger_id] = known.size_bytes
            self._known_bytes.change(more)  # which may have some evicted
        self._shrink_known(self._known_bytes.total - self._known_bytes_max)

    def forecast(self, ledger_id: int, first: int, entries_max: int, bytes_max: int) -> int:
        known = self._known.get(ledger_id)
        return 0 if known is None or first < 0 else known.entries_of_read(first, entries_max, bytes_max)

    def forget(self, ledger_id: int) -> None:
        self._forget_known(ledger_id)
        for key in [key for key in self._cached if key[0] == ledger_id]:
            self.take(*key)

    def take(self, ledger_id: int, number: int) -> StoredBlock | None:
        return self._evicted((ledger_id, number))[0] if (ledger_id, number) in self._cached else None

    def keeps(self, ledger_id: int, number: int) -> bool:
        return (ledger_id, number) in self._cached

    def keep(self, stored: StoredBlock) -> None:
        key = (stored.block.ledger_id, stored.number)
        if key not in self._cached:
            size = _kept_bytes(stored)
            self._cached[key] = stored
            self._cached_bytes.change(size)  # which may have some evicted
        self._shrink_cached(self._cached_bytes.total - self._cache_bytes_max)

    def _evicted(self, key: tuple[int, int]) -> tuple[StoredBlock, int]:
        """With the bytes that it took."""
        stored = self._cached.pop(key)
        size = _kept_bytes(stored)
        self._cached_bytes.change(-size)
        return stored, size

    def _forget_known(self, ledger_id: int) -> int:
        """The bytes that it took."""
        self._known.pop(ledger_id, None)
        size = self._known_sizes.pop(ledger_id, 0)
        self._known_bytes.change(-size)
        return size


class LedgerReading:
    """One read of one ledger."""

    def __init__(self, ledger_id: int, source: Source, reads: BlockReads) -> None:
        self._ledger_id = ledger_id
        self._source = source
        self._reads = reads
        self._known = reads.known(ledger_id, source.sparse)
        self._known.last_block = max(self._known.last_block, source.last_block)

    async def blocks(self, first: int, entries_max: int, bytes_max: int) -> list[Block]:
        """See `LedgerReader.read`."""
        last_entry = self._source.last_entry
        if not 0 <= first <= last_entry:
            raise NoSuchEntry(f"ledger {self._ledger_id} ends at entry {last_entry}; {first} was asked for", self._ledger_id)
        number = await self._find(first)
        end = self._known.known_end(number, first + entries_max - 1, bytes_max)
        blocks: list[Block] = []
        entries = size_bytes = 0
        full = False
        while not full and number <= self._source.last_block and (not blocks or entries < entries_max):
            try:
                if end is not None:
                    some = await self._fetch(number, end + 1 - number, None)
                else:
                    some = await self._fetch(number, self._at_once(entries_max - entries), max(1, bytes_max - size_bytes))
            except CorruptEntry as error:
                if blocks:
                    break
                some = [await self._first_of(number, first, error)]
            for stored in some:
                size_bytes += stored.size_bytes
                if blocks and (full or size_bytes > bytes_max or entries >= entries_max):
                    self._reads.keep(stored)
                    full = True
                    continue
                block = stored.block
                blocks.append(block)
                full = size_bytes >= bytes_max
                entries += block.last_entry + 1 - max(first, block.first_entry)
            number += len(some)
        return blocks

    def forecast(self, first: int, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        """See `LedgerStore.forecast`. Of a read that follows another one it is known where it begins, so the last of its blocks is
        read ahead of the others, and kept for it."""
        if not 0 <= first <= self._source.last_entry:
            return 0
        entries = self._reads.forecast(self._ledger_id, first, entries_max, bytes_max)
        if entries:
            return entries
        end = self._known.end_of_read(first, self._source.last_entry, entries_max, bytes_max)
        return 0 if end is None else self._ends_at(end, first, entries_max, bytes_max)

    async def _ends_at(self, end: ReadEnd, first: int, entries_max: int, bytes_max: int) -> int:
        for _ in range(FORECAST_READS_MAX):
            try:
                (stored,) = await self._fetch(end.number, 1, 1)
            except (CorruptEntry, StoreError):
                return 0  # the read itself tells
            self._reads.keep(stored)
            share = self._known.share_of_read(end, bytes_max)
            if share == 1.0:
                return self._known.entries_to(end, first, entries_max)
            end = end.shorter(share * 0.8)
        return 0

    async def last(self) -> StoredBlock:
        """The last block, where there is one. Raises `CorruptEntry` and what the source raises."""
        (stored,) = await self._fetch(self._source.last_block, 1, 1)
        self._reads.keep(stored)
        return stored

    async def _find(self, first: int) -> int:
        """The number of the block that holds an entry, or of the next one behind a gap."""
        tries = 0
        while True:
            where = self._known.find(first, self._source.last_block, self._source.last_entry)
            if where.lowest >= where.highest:
                return where.lowest
            span = where.highest - where.lowest + 1
            if tries % 3 == 2:  # entries are not spread evenly: by halves
                guess = where.lowest + span // 2
            else:
                guess = where.lowest + (first - where.begin) * span // max(1, where.end - where.begin)
            tries += 1
            guess = min(max(guess, where.lowest), where.highest)
            stored = await self._readable(guess, where.highest)
            if stored is None and guess == where.lowest:
                return guess  # whatever holds the entry is lost
            if stored is None:
                number = await self._before(where.lowest, guess, first)
                if number is not None:
                    return number

    async def _before(self, lowest: int, lost: int, first: int) -> int | None:
        """The block of an entry, where that from `lost` on is lost: `lost` itself, unless it is before it."""
        for number in range(lost - 1, max(lowest, lost - RESUME_BLOCKS_MAX) - 1, -1):
            stored = await self._readable(number, number)
            if stored is not None:
                return None if stored.block.last_entry >= first else number + 1
        return lowest

    async def _readable(self, number: int, highest: int) -> StoredBlock | None:
        """The block, or the first behind it that is not lost; it is known then."""
        for candidate in range(number, min(highest, number + RESUME_BLOCKS_MAX) + 1):
            try:
                (stored,) = await self._fetch(candidate, 1, 1)
            except CorruptEntry:
                continue
            self._reads.keep(stored)
            return stored
        return None

    async def _first_of(self, number: int, first: int, error: CorruptEntry) -> StoredBlock:
        """The block alone, where of several one is lost. Raises `Corrupt` if it is this one."""
        try:
            (stored,) = await self._fetch(number, 1, 1)
        except CorruptEntry as lost:
            behind = None
            if number < self._source.last_block:
                behind = await self._readable(number + 1, self._source.last_block)
            resume = self._source.last_entry + 1 if behind is None else behind.after_entry + 1
            raise Corrupt(f"{told(lost)}", self._ledger_id, first, resume) from error
        return stored

    def _at_once(self, entries: int) -> int:
        """How many blocks have about so many entries, by the mean of the ledger."""
        if self._source.sparse:
            return BLOCKS_AT_ONCE_MAX
        return min(BLOCKS_AT_ONCE_MAX, 1 + entries * (self._source.last_block + 1) // (self._source.last_entry + 1))

    async def _fetch(self, number: int, count: int, bytes_max: int | None) -> list[StoredBlock]:
        """At least one block, and `count` at most, or about `bytes_max`. Raises `CorruptEntry`, `StoreError`."""
        last = min(number + count - 1, self._source.last_block)
        some: list[StoredBlock] = []
        size_bytes = 0
        while number <= last and (cached := self._reads.take(self._ledger_id, number)) is not None:
            self._add(cached)  # what is known of a ledger is forgotten sooner than its blocks
            some.append(cached)
            size_bytes += cached.size_bytes
            number += 1
            if bytes_max is not None and size_bytes >= bytes_max:
                return some
        if some:
            return some
        while last > number and self._reads.keeps(self._ledger_id, last):
            last -= 1
        try:
            payloads = await self._source.payloads(number, last, bytes_max)
        except CorruptEntry:
            raise
        except BookkeeperError as error:
            raise told(error, self._ledger_id) from error
        for payload in payloads:
            try:
                stored = decode(self._ledger_id, number, payload)
            except ValueError as error:
                raise CorruptEntry(f"add {number} of ledger {self._ledger_id}: {error}", self._ledger_id) from None
            self._add(stored)
            some.append(stored)
            number += 1
        return some

    def _add(self, stored: StoredBlock) -> None:
        self._known.add(stored.number, stored.after_entry, stored.block.last_entry, stored.size_bytes, stored.end_bytes)
        self._reads.count(self._ledger_id, self._known)


def _kept_bytes(stored: StoredBlock) -> int:
    return len(stored.block.data) + len(stored.block.header) + 4 * stored.block.count + 500
