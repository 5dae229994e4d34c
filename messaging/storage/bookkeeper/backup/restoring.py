"""Writes the ledgers of packs into a store of another BookKeeper, which has none of its name.

Each gets the id that it had for clients; BookKeeper's own id of it has the number of the new store in front. Adds are written as
they were, one each, so blocks, gaps and the end of each ledger are the same. All are closed. Until the last one is, the record of
the store says that it is not whole, and no broker starts on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.errors import BookkeeperError, ConditionFailed
from messaging.bookkeeper.shell.ledger_writer import LedgerWriter
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.backup.nodes import RestoredNodes
from messaging.storage.bookkeeper.backup.packs import LedgerHead, Pack, StoreContent, ledgers_of
from messaging.storage.bookkeeper.opened_ledgers import DIGEST_TYPE, custom_of
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.fence_table import scope_of
from messaging.storage.ledger_store import StoreError

WORKERS = 4


class LedgerRestoring:
    """`run` raises `StoreError` and `OSError`; there is no store then, unless that cannot be said."""

    def __init__(self, client: BookkeeperClient, nodes: RestoredNodes, url: BookkeeperUrl) -> None:
        self._client = client
        self._nodes = nodes
        self._url = url
        self._password = url.password()
        self._scopes: dict[str, asyncio.Task[None]] = {}
        self._is_whole = False

    async def run(self, backup_id: str, packs: Sequence[Pack]) -> None:
        """Claims the store and writes all ledgers. `end` makes it one that brokers start on. Nothing is to be done where a
        restore of this backup had ended, and was cut off before whoever asked for it knew."""
        self._is_whole = await self._nodes.is_restored(backup_id)
        if self._is_whole:
            return
        remains = await self._nodes.begin_restore(backup_id)
        try:
            if remains:
                await self._nodes.clear(self._client)
            await self._write(packs)
        except BaseException:
            await self.give_up()
            raise

    async def end(self, content: StoreContent) -> None:
        if not self._is_whole:
            await self._nodes.end_restore(content.generation, content.epoch)

    async def give_up(self) -> None:
        """Raises nothing: remains are cleared by the next restore."""
        with suppress(StoreError):
            await self._nodes.clear(self._client)
            await self._nodes.forget()

    async def _write(self, packs: Sequence[Pack]) -> None:
        waiting = iter(packs)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(WORKERS)]
        try:
            await asyncio.gather(*workers)
        finally:
            tasks = [*workers, *self._scopes.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, packs: Iterator[Pack]) -> None:
        for pack in packs:
            for head, payloads in ledgers_of(pack.path, pack.sha256):
                await self._make_scope(scope_of(head.properties))
                try:
                    await self._restore(head, payloads)
                except BookkeeperError as error:
                    raise told(error, head.ledger_id) from error

    async def _make_scope(self, scope: str) -> None:
        """Once."""
        made = self._scopes.get(scope)
        if made is None:
            made = self._scopes[scope] = asyncio.create_task(self._nodes.make_scope(scope))
        await asyncio.shield(made)

    async def _restore(self, head: LedgerHead, payloads: Iterator[bytes]) -> None:
        writer = await self._create(head)
        try:
            for payload in payloads:
                await writer.writable()
                writer.append(payload)
            await writer.flush()
            closed = await writer.close()
        except BaseException:
            await writer.abandon()
            raise
        if closed.last_entry_id != head.adds - 1:
            raise StoreError(f"{WHAT}: ledger {head.ledger_id} ends at add {closed.last_entry_id} instead of {head.adds - 1}")

    async def _create(self, head: LedgerHead) -> LedgerWriter:
        try:
            return await self._client.create(
                ensemble=self._url.ensemble,
                write_quorum=self._url.write_quorum,
                ack_quorum=self._url.ack_quorum,
                ledger_id=self._nodes.bookkeeper_id(head.ledger_id),
                digest_type=DIGEST_TYPE,
                password=self._password,
                custom=custom_of(head.properties),
                along=self._nodes.along(scope_of(head.properties), head.ledger_id),
            )
        except ConditionFailed as error:
            raise StoreError(
                f"{WHAT}: ledger {head.ledger_id} was not made: {error.path} is not as this restore left it; another one has begun"
            ) from None
