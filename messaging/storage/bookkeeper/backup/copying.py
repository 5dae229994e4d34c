"""Reads the ledgers of a store from its bookies into packs, each as far as it belongs to the moment of the backup.

A ledger that a held broker was writing ends where that broker said. Any other one is closed, or has a writer that is gone: then it
is recovered, as the next owner of its scope would do, and ends where that finds its end. Ledgers that came since are passed over.

A few ledgers are read at a time, each a piece after the other, so memory is bounded by `WORKERS` pieces. What a bookie does not
answer another one is asked for; what none answers is asked again, and fails the backup in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.errors import BookkeeperError, NoSuchLedger
from messaging.bookkeeper.shell.ledger_reader import LedgerReader
from messaging.storage.bookkeeper.backup.nodes import AT_ONCE, BackedUpNodes
from messaging.storage.bookkeeper.backup.pace import Pace
from messaging.storage.bookkeeper.backup.packs import CONTENT_FORMAT, MAGIC, LedgerHead, StoreContent, framed, head_bytes
from messaging.storage.bookkeeper.opened_ledgers import DIGEST_TYPE, properties_of
from messaging.storage.bookkeeper.store_errors import told
from messaging.storage.ledger_store import StoreError
from messaging.storage.noted_ledgers import NOT_OF_THE_MOMENT

WORKERS = 4
PIECE_BYTES = 4 << 20  # that a read brings, and one add more
PACK_BYTES_MAX = 1 << 30  # a pack ends with the ledger that reaches it
ATTEMPTS_MAX = 6
AGAIN_S = 5.0  # until a read that nobody answered is tried again: bookies that restart take a while

T = TypeVar("T")


class PackFile(Protocol):
    """Blocks. Raises `OSError`."""

    def write(self, parts: Sequence[bytes]) -> None: ...
    def finish(self) -> None: ...
    def abandon(self) -> None:
        """Closes it as it is. Raises nothing."""


class LedgerCopying:
    """One copy of one store. Raises `StoreError` and `OSError`."""

    def __init__(self, client: BookkeeperClient, nodes: BackedUpNodes, password: bytes, again_s: float = AGAIN_S) -> None:
        self._client = client
        self._nodes = nodes
        self._password = password
        self._again_s = again_s
        self._new_pack: Callable[[str], PackFile]
        self._pace: Pace
        self._packs: list[str] = []
        self._ledgers = self._adds = 0
        self._missing: list[int] = []

    async def require_owners(self, scopes: Mapping[str, int]) -> None:
        """Raises `StoreError` if another broker took over what one of the held ones was writing in: it may have seen more of its
        ledgers, and the metadata with it."""
        names = list(scopes)
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            for scope, epoch in zip(some, await asyncio.gather(*map(self._nodes.epoch_of, some)), strict=True):
                if epoch != scopes[scope]:
                    raise StoreError(f"{scope} changed its broker at the moment of the backup: try again")

    async def copy(
        self, listed: set[int], ends: Mapping[int, int], new_pack: Callable[[str], PackFile], pace: Pace
    ) -> StoreContent:
        """`listed`: ledgers that were there after the moment. `new_pack` makes the file of a name."""
        self._new_pack, self._pace = new_pack, pace
        ids = iter(sorted(ledger_id for ledger_id in listed if ends.get(ledger_id) != NOT_OF_THE_MOMENT))
        workers = [asyncio.create_task(self._work(ids, ends)) for _ in range(WORKERS)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        await self._require_none_lost(listed, ends)
        record = self._nodes.record
        return StoreContent(
            format=CONTENT_FORMAT,
            generation=record.generation,
            epoch=record.epoch,
            packs=sorted(self._packs),
            ledgers=self._ledgers,
            adds=self._adds,
            missing=sorted(self._missing),
        )

    async def _require_none_lost(self, listed: set[int], ends: Mapping[int, int]) -> None:
        """A ledger that is listed and nothing else was that before; one that is listed no more was deleted meanwhile."""
        lost = [ledger_id for ledger_id, end in ends.items() if end >= 0 and ledger_id not in listed]
        if self._missing:
            still_listed = await self._nodes.listed_ids()
            lost += [each for each in self._missing if each not in still_listed or each in ends]
        if lost:
            raise StoreError(
                f"ledger {min(lost)} is gone, which was there at the moment of the backup: somebody deleted it, a broker that was "
                "started meanwhile perhaps; try again",
                min(lost),
            )

    async def _work(self, ids: Iterator[int], ends: Mapping[int, int]) -> None:
        pack: _Pack | None = None
        try:
            for ledger_id in ids:
                reader = await self._again(ledger_id, partial(self._open, ledger_id, ends.get(ledger_id)))
                if reader is None:
                    continue
                if pack is None:
                    pack = self._begin()
                await self._copy(ledger_id, reader, pack)
                if pack.size_bytes >= PACK_BYTES_MAX:
                    await asyncio.to_thread(pack.file.finish)
                    pack = None
            if pack is not None:
                await asyncio.to_thread(pack.file.finish)
        except BaseException:
            if pack is not None:
                pack.file.abandon()
            raise

    def _begin(self) -> _Pack:
        name = f"ledgers-{len(self._packs):06}.pack"
        self._packs.append(name)
        return _Pack(self._new_pack(name))

    async def _copy(self, ledger_id: int, reader: LedgerReader, pack: _Pack) -> None:
        last = reader.last_entry_id
        head = LedgerHead(ledger_id, last + 1, properties_of(ledger_id, reader.metadata))
        await asyncio.to_thread(pack.write, head_bytes(head))
        first = 0
        while first <= last:
            entries = await self._again(ledger_id, partial(reader.read, first, last, PIECE_BYTES))
            parts = [part for entry in entries for part in framed(entry.payload)]
            await asyncio.to_thread(pack.write, parts)
            first += len(entries)
            await self._pace.read(sum(map(len, parts)))
        self._ledgers += 1
        self._adds += head.adds

    async def _open(self, ledger_id: int, end: int | None) -> LedgerReader | None:
        """None: it is not there."""
        number, password = self._nodes.bookkeeper_id(ledger_id), self._password
        try:
            if end is not None:
                return await self._client.open(number, digest_type=DIGEST_TYPE, password=password, last_entry_id=end)
            reader = await self._client.open(number, digest_type=DIGEST_TYPE, password=password)
            if not reader.metadata.is_closed:
                reader = await self._client.recover(number, digest_type=DIGEST_TYPE, password=password)
        except NoSuchLedger:
            self._missing.append(ledger_id)
            return None
        return reader

    async def _again(self, ledger_id: int, call: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await call()
            except BookkeeperError as error:
                if not error.retryable or attempt == ATTEMPTS_MAX:
                    ours = told(error, ledger_id)
                    raise type(ours)(f"ledger {ledger_id} cannot be copied: {ours}", ledger_id) from error
            await asyncio.sleep(self._again_s)
        raise AssertionError("the last attempt raises")


class _Pack:
    def __init__(self, file: PackFile) -> None:
        self.file = file
        self.size_bytes = 0
        try:
            self.write((MAGIC,))
        except BaseException:
            file.abandon()
            raise

    def write(self, parts: Sequence[bytes]) -> None:
        self.file.write(parts)
        self.size_bytes += sum(map(len, parts))
