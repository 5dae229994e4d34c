"""The nodes of a store in ZooKeeper, beside the metadata that BookKeeper keeps of each ledger.

    magnetar/numbers/N                      which store has the ledger ids with this number
    magnetar/stores/NAME                    the record of the store: its number, how often it was started, its generation
    magnetar/stores/NAME/scopes/SCOPE       the newest epoch of a scope. The version of this node is what a fence is checked by
    magnetar/stores/NAME/scopes/SCOPE/L12   a ledger that was made under a fence of this scope
    magnetar/stores/NAME/scopes/SCOPE/O12   the same, until it is sealed for certain

Ledgers are made in one transaction with their two nodes and a check of the scope's version. So whoever raised an epoch finds every
ledger that its former owner may still write to, and that one makes no more. Nodes may be left where a ledger is not any more, or
is sealed already; never the other way round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from messaging.bookkeeper.errors import BookkeeperError
from messaging.bookkeeper.metadata.store import (
    CheckNode,
    CreateNode,
    DeleteNode,
    MetadataConflict,
    MetadataStore,
    Node,
    NodeChange,
    SetNode,
    UnknownOutcome,
)
from messaging.bookkeeper_url import BookkeeperUrl
from messaging.json_types import decoder_of
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.ledger_store import Fence, Fenced, StoreError, Unreachable

FORMAT_VERSION = 1
NUMBER_MAX = (1 << 22) - 1
LEDGER_ID_MAX = (1 << 40) - 1
_OURS = 1 << 62  # ids that BookKeeper gives out itself begin at 0 and never come so far
ATTEMPTS_MAX = 20  # of a change that met another one
AGAIN_S = 0.2


class StoreRecord(msgspec.Struct, frozen=True):
    """`cluster`: of the bookies, with the root of their ledgers. `restoring`: the id of the backup of which the store
    has a part; empty: it is whole. `restored`: the id of the backup of which it has all, until the first start on it."""

    format: int
    number: int
    cluster: str
    epoch: int
    generation: str
    restoring: str = ""
    restored: str = ""


class LedgersOfScope(NamedTuple):
    all_ids: list[int]
    open_ids: list[int]  # those that may not be sealed


class StoreNodes:
    """`record` is of this start, once `begin` has returned. Every call raises `StoreError`."""

    record: StoreRecord

    def __init__(self, metadata: MetadataStore, url: BookkeeperUrl) -> None:
        self._metadata = metadata
        self._url = url
        self._home = url.home
        self.path = f"{url.home}/stores/{url.store}"

    # --- the store

    async def begin(self) -> None:
        """Makes the record where there is none, and gives this start its epoch."""
        for _ in range(ATTEMPTS_MAX):
            stored = await self._node(self.path)
            record = self._new(await self._free_number()) if stored is None else self._read(stored)
            record = msgspec.structs.replace(record, epoch=record.epoch + 1, restored="")
            if await self._write(record, stored):
                self.record = record
                return
        raise Unreachable(f"{WHAT}: the node {self.path} changes all the time")

    async def generation(self) -> str:
        stored = await self._node(self.path)
        if stored is None:
            raise StoreError(f"{WHAT}: its node {self.path} is gone")
        return self._read(stored).generation

    async def name_generation(self, generation: str) -> None:
        for _ in range(ATTEMPTS_MAX):
            stored = await self._node(self.path)
            if stored is None:
                raise StoreError(f"{WHAT}: its node {self.path} is gone")
            if await self._write(msgspec.structs.replace(self._read(stored), generation=generation), stored):
                return
        raise Unreachable(f"{WHAT}: the node {self.path} changes all the time")

    async def ask(self) -> None:
        """Returns when ZooKeeper has answered."""
        await self._node(self.path)

    def bookkeeper_id(self, ledger_id: int) -> int:
        """The id that our ledger has there."""
        if not 0 <= ledger_id <= LEDGER_ID_MAX:
            raise StoreError(f"ledger {ledger_id}: ids of this store are from 0 to {LEDGER_ID_MAX}", ledger_id)
        return _OURS | self.record.number << 40 | ledger_id

    def own_id(self, bookkeeper_id: int) -> int:
        """Of a ledger of this store, by its id there."""
        return bookkeeper_id & LEDGER_ID_MAX

    # --- fences

    async def raise_fence(self, fence: Fence) -> int:
        """The version of the scope's node, from now on checked by every change. Raises `Fenced` if a newer one is known."""
        path = self.scope_path(fence.scope)
        for _ in range(ATTEMPTS_MAX):
            stored = await self._node(path)
            if stored is not None and (epoch := _epoch(path, stored)) >= fence.epoch:
                if epoch == fence.epoch:
                    return stored.version
                raise Fenced(f"epoch {fence.epoch} does not own {fence.scope}; epoch {epoch} does")
            data = b"%d" % fence.epoch
            await self._try(CreateNode(path, data) if stored is None else SetNode(path, data, stored.version))
        raise Unreachable(f"{WHAT}: the node {path} changes all the time")

    async def epoch_of(self, scope: str) -> int:
        """The newest epoch of a scope; 0: it has none."""
        stored = await self._node(self.scope_path(scope))
        return 0 if stored is None else _epoch(self.scope_path(scope), stored)

    async def check_fence(self, fence: Fence, version: int) -> None:
        """Raises `Fenced` if the node of its scope has another version."""
        try:
            await self._metadata.change([self.check(fence.scope, version)])
        except MetadataConflict:
            raise fenced_out(fence) from None
        except UnknownOutcome:
            raise Unreachable(f"{WHAT}: ZooKeeper does not answer") from None
        except BookkeeperError as error:
            raise told(error) from error

    def check(self, scope: str, version: int) -> NodeChange:
        return CheckNode(self.scope_path(scope), version)

    def scope_path(self, scope: str) -> str:
        return f"{self.path}/scopes/{quote(scope, safe='')}"

    # --- lists of ledgers

    def listing(self, scope: str, ledger_id: int) -> Sequence[NodeChange]:
        """What a ledger is made with."""
        path = self.scope_path(scope)
        return CreateNode(f"{path}/L{ledger_id}"), CreateNode(f"{path}/O{ledger_id}")

    async def sealed(self, scope: str, ledger_id: int) -> None:
        """Raises nothing: a node that is left costs whoever takes the scope over a look."""
        await self._drop(f"{self.scope_path(scope)}/O{ledger_id}")

    async def deleted(self, scope: str, ledger_id: int) -> None:
        """Raises nothing: what is still listed is deleted again by who collects orphans."""
        path = self.scope_path(scope)
        await asyncio.gather(self._drop(f"{path}/L{ledger_id}"), self._drop(f"{path}/O{ledger_id}"))

    async def listed(self, scope: str) -> LedgersOfScope:
        names = await self._names(self.scope_path(scope))
        kinds = {"L": list[int](), "O": list[int]()}
        for name in names:
            if name[:1] in kinds and name[1:].isdigit():
                kinds[name[0]].append(int(name[1:]))
        return LedgersOfScope(kinds["L"], kinds["O"])

    async def scopes(self) -> list[str]:
        return [unquote(name) for name in await self._names(f"{self.path}/scopes")]

    # --- inside

    def _new(self, number: int) -> StoreRecord:
        return StoreRecord(FORMAT_VERSION, number, self._cluster, 0, "")

    @property
    def _cluster(self) -> str:
        return f"{self._metadata.cluster_id} {self._url.root}"

    def _read(self, stored: Node) -> StoreRecord:
        record = self._decoded(stored)
        if record.restoring:
            raise StoreError(
                f"{WHAT}: a restore into the store {self.path} has not ended: wait for its end, or restore again if it was cut off"
            )
        return record

    def _decoded(self, stored: Node) -> StoreRecord:
        try:
            record = decoder_of(StoreRecord).decode(stored.data)
        except msgspec.DecodeError as error:
            raise StoreError(f"{WHAT}: the node {self.path} is no record of a store: {error}") from None
        if record.format != FORMAT_VERSION:
            raise StoreError(f"{WHAT}: the store {self.path} has format {record.format}; this release reads {FORMAT_VERSION}")
        if record.cluster != self._cluster:
            raise StoreError(
                f"{WHAT}: the store {self.path} belongs to the bookies {record.cluster}, and these are {self._cluster}: they were "
                "made anew, or are others. Name the right ones, or another store (?store=NAME in ledger_url)"
            )
        return record

    async def _free_number(self) -> int:
        taken = [int(name) for name in await self._names(f"{self._home}/numbers") if name.isdigit()]
        number = max(taken, default=0) + 1
        if number > NUMBER_MAX:
            raise StoreError(f"{WHAT}: the numbers of stores below {self._home} are used up")
        return number

    async def _write(self, record: StoreRecord, former: Node | None) -> bool:
        data = msgspec.json.encode(record)
        if former is not None:
            return await self._try(SetNode(self.path, data, former.version))
        return await self._try(CreateNode(f"{self._home}/numbers/{record.number}"), CreateNode(self.path, data))

    async def _try(self, *changes: NodeChange) -> bool:
        """Whether it was done. False: something else was there, or nobody knows; look again."""
        try:
            await self._metadata.change(changes)
        except MetadataConflict:
            return False
        except UnknownOutcome:
            await asyncio.sleep(AGAIN_S)
            return False
        except BookkeeperError as error:
            raise told(error) from error
        return True

    async def _drop(self, path: str) -> None:
        with suppress(StoreError):
            await self._try(DeleteNode(path))

    async def _node(self, path: str) -> Node | None:
        try:
            return await self._metadata.node(path)
        except BookkeeperError as error:
            raise told(error) from error

    async def _names(self, path: str) -> list[str]:
        try:
            return await self._metadata.names_below(path)
        except BookkeeperError as error:
            raise told(error) from error


def _epoch(path: str, stored: Node) -> int:
    if not stored.data.isdigit():
        raise StoreError(f"{WHAT}: the node {path} has no epoch but {stored.data[:40]!r}")
    return int(stored.data)


def fenced_out(fence: Fence) -> Fenced:
    return Fenced(f"epoch {fence.epoch} does not own {fence.scope} any more: another broker took it over")
