"""The nodes of a store, as a backup reads them and a restore makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from messaging.bookkeeper.client import BookkeeperClient
from messaging.bookkeeper.errors import BookkeeperError
from messaging.bookkeeper.metadata.store import CheckNode, CreateNode, DeleteNode, Node, NodeChange, SetNode
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.bookkeeper.store_nodes import ATTEMPTS_MAX, StoreNodes
from messaging.storage.ledger_store import StoreError, Unreachable

AT_ONCE = 32


class BackedUpNodes(StoreNodes):
    async def look(self) -> None:
        """Raises `StoreError`, also if there is no store."""
        stored = await self._node(self.path)
        if stored is None:
            raise StoreError(f"{WHAT} has no store of this name: its node {self.path} is missing")
        self.record = self._read(stored)

    async def listed_ids(self) -> set[int]:
        """Of all scopes."""
        found: set[int] = set()
        scopes = await self.scopes()
        for start in range(0, len(scopes), AT_ONCE):
            for listed in await asyncio.gather(*map(self.listed, scopes[start : start + AT_ONCE])):
                found.update(listed.all_ids)
        return found

    async def is_listed(self, scope: str, ledger_id: int) -> bool:
        return await self._node(f"{self.scope_path(scope)}/L{ledger_id}") is not None


class RestoredNodes(StoreNodes):
    """`begin_restore` claims the store for one restore; its record says so, and no broker starts on it until `end_restore`."""

    _version: int

    async def require_empty(self, backup_id: str) -> None:
        """Raises `StoreError` if there is a store of this name, unless a restore into it was cut off, or it was restored from this
        backup and nobody has started on it."""
        if not await self.is_restored(backup_id):
            self._require_empty(await self._node(self.path))

    async def is_restored(self, backup_id: str) -> bool:
        """Whether the store has all of this backup, and nothing else yet. Raises `StoreError`."""
        stored = await self._node(self.path)
        return stored is not None and self._decoded(stored).restored == backup_id != ""

    async def begin_restore(self, backup_id: str) -> bool:
        """Whether there are remains of another restore, which is shut out from now on. Raises `StoreError`."""
        for _ in range(ATTEMPTS_MAX):
            stored = await self._node(self.path)
            self._require_empty(stored)
            record = self._new(await self._free_number()) if stored is None else self._decoded(stored)
            record = msgspec.structs.replace(record, restoring=backup_id, restored="")
            if await self._write(record, stored):
                self.record, self._version = record, 0 if stored is None else stored.version + 1
                return stored is not None
        raise Unreachable(f"{WHAT}: the node {self.path} changes all the time")

    async def make_scope(self, scope: str) -> None:
        """Nobody owns it yet."""
        for _ in range(ATTEMPTS_MAX):
            if await self._node(self.scope_path(scope)) is not None:
                return
            await self._try(CreateNode(self.scope_path(scope), b"0"))
        raise Unreachable(f"{WHAT}: the node {self.scope_path(scope)} cannot be made")

    def along(self, scope: str, ledger_id: int) -> Sequence[NodeChange]:
        """What a ledger is made with: as long as no other restore has claimed the store."""
        return CheckNode(self.path, self._version), CreateNode(f"{self.scope_path(scope)}/L{ledger_id}")

    async def end_restore(self, generation: str, epoch: int) -> None:
        """From now on brokers may start. Raises `StoreError`."""
        record = msgspec.structs.replace(
            self.record, generation=generation, epoch=epoch, restoring="", restored=self.record.restoring
        )
        for _ in range(ATTEMPTS_MAX):
            if await self._try(SetNode(self.path, msgspec.json.encode(record), self._version)):
                return
            stored = await self._node(self.path)
            if stored is not None and (stored.version, self._decoded(stored)) == (self._version + 1, record):
                return  # an attempt whose answer was lost
            if stored is None or stored.version != self._version:
                raise StoreError(f"{WHAT}: another restore into the store {self.path} began meanwhile")
        raise Unreachable(f"{WHAT}: the node {self.path} cannot be written")

    async def clear(self, client: BookkeeperClient) -> None:
        """Deletes all ledgers of the store, and what lists them. Raises `StoreError`."""
        for scope in await self.scopes():
            ledger_ids = (await self.listed(scope)).all_ids
            for start in range(0, len(ledger_ids), AT_ONCE):
                await asyncio.gather(*(self._delete(client, scope, each) for each in ledger_ids[start : start + AT_ONCE]))
            await self._drop_ours(self.scope_path(scope))

    async def forget(self) -> None:
        """Takes a store that is empty out of the cluster; its number is not given to another one."""
        await self._drop_ours(f"{self.path}/scopes")
        await self._drop_ours(self.path)

    async def _drop_ours(self, path: str) -> None:
        """Unless another restore has claimed the store: it is that one's then."""
        with suppress(StoreError):
            await self._try(CheckNode(self.path, self._version), DeleteNode(path))

    async def _delete(self, client: BookkeeperClient, scope: str, ledger_id: int) -> None:
        path = f"{self.scope_path(scope)}/L{ledger_id}"
        try:
            await client.delete(self.bookkeeper_id(ledger_id), [CheckNode(self.path, self._version), DeleteNode(path)])
        except BookkeeperError as error:
            raise told(error, ledger_id) from error
        await self._drop(path)  # where there was none but in the list

    def _require_empty(self, stored: Node | None) -> None:
        if stored is not None and not self._decoded(stored).restoring:
            raise StoreError(
                f"{WHAT} has a store of this name, {self.path}: a backup is restored into a new one; name it (?store=NAME in "
                "ledger_url), or another BookKeeper"
            )
