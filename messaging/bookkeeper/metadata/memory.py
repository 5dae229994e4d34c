"""A metadata store in the memory of this process, for tests: it forgets everything with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.racks import RackTable
from messaging.bookkeeper.errors import NoSuchLedger
from messaging.bookkeeper.metadata.store import (
    BookieAddress,
    CheckNode,
    CreateNode,
    MetadataConflict,
    MetadataStore,
    Node,
    NodeChange,
    SetNode,
)


class MemoryMetadataStore(MetadataStore):
    """Several clients of one event loop may share it. `racks_path` as of the store in ZooKeeper."""

    def __init__(self, racks_path: str = "") -> None:
        self._racks_path = racks_path
        self._stored: dict[int, tuple[bytes, int]] = {}
        self._bookies: dict[str, BookieAddress] = {}
        self._watches: dict[int, list[Callable[[], None]]] = {}
        self._bookie_watches: list[Callable[[], None]] = []
        self._last_id = -1
        self._nodes: dict[str, Node] = {}

    @property
    def cluster_id(self) -> str:
        return "memory"

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def register(self, address: BookieAddress) -> None:
        self._bookies[address.bookie] = address
        self._tell(self._bookie_watches)

    def unregister(self, bookie: str) -> None:
        self._bookies.pop(bookie, None)
        self._tell(self._bookie_watches)

    async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
        self._check(along)
        if metadata.ledger_id in self._stored:
            raise MetadataConflict
        self._apply(along)
        self._stored[metadata.ledger_id] = (metadata.encode(), 0)
        return replace(metadata, version=0)

    async def read(self, ledger_id: int) -> LedgerMetadata:
        if ledger_id not in self._stored:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        data, version = self._stored[ledger_id]
        return LedgerMetadata.decode(ledger_id, data, version)

    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        stored = await self.read(metadata.ledger_id)
        if stored.version != metadata.version:
            raise MetadataConflict
        version = (stored.version or 0) + 1
        self._stored[metadata.ledger_id] = (metadata.encode(), version)
        self._tell(self._watches.get(metadata.ledger_id, []))
        return replace(metadata, version=version)

    async def delete(self, ledger_id: int, along: Sequence[NodeChange] = ()) -> None:
        self._check(along)
        if self._stored.pop(ledger_id, None) is None:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        self._apply(along)
        self._tell(self._watches.get(ledger_id, []))

    async def ledgers(self) -> AsyncIterator[int]:
        for ledger_id in list(self._stored):
            yield ledger_id

    async def new_ledger_id(self) -> int:
        self._last_id = max([self._last_id, *self._stored]) + 1
        return self._last_id

    def watch(self, ledger_id: int, changed: Callable[[], None]) -> Callable[[], None]:
        callbacks = self._watches.setdefault(ledger_id, [])
        callbacks.append(changed)
        return lambda: callbacks.remove(changed)

    async def bookies(self) -> list[BookieAddress]:
        racks = self._nodes.get(self._racks_path)
        if racks is None:
            return list(self._bookies.values())
        table = RackTable.parse(racks.data)
        return [replace(each, rack=table.rack_of(each.bookie, f"{each.host}:{each.port}")) for each in self._bookies.values()]

    def watch_bookies(self, changed: Callable[[], None]) -> None:
        self._bookie_watches.append(changed)

    async def node(self, path: str) -> Node | None:
        return self._nodes.get(path)

    async def names_below(self, path: str) -> list[str]:
        prefix = f"{path}/"
        return [node[len(prefix) :] for node in self._nodes if node.startswith(prefix) and "/" not in node[len(prefix) :]]

    def paths(self) -> list[str]:
        """Of the nodes of the caller's own."""
        return list(self._nodes)

    def overwrite(self, path: str, data: bytes) -> None:
        """As somebody else would."""
        self._nodes[path] = Node(data, self._nodes[path].version + 1)

    async def change(self, changes: Sequence[NodeChange]) -> None:
        self._check(changes)
        self._apply(changes)

    def _check(self, changes: Sequence[NodeChange]) -> None:
        for change in changes:
            stored = self._nodes.get(change.path)
            if isinstance(change, CreateNode):
                fits = stored is None
            elif isinstance(change, CheckNode | SetNode):
                fits = stored is not None and stored.version == change.version
            else:
                fits = stored is not None
            if not fits:
                raise MetadataConflict(change.path)

    def _apply(self, changes: Sequence[NodeChange]) -> None:
        if any(change.path == self._racks_path for change in changes):
            self._tell(self._bookie_watches)
        for change in changes:
            if isinstance(change, CreateNode):
                self._nodes[change.path] = Node(change.data, 0)
            elif isinstance(change, SetNode):
                self._nodes[change.path] = Node(change.data, change.version + 1)
            elif not isinstance(change, CheckNode):
                del self._nodes[change.path]

    @staticmethod
    def _tell(callbacks: list[Callable[[], None]]) -> None:
        loop = asyncio.get_running_loop()
        for callback in callbacks:
            loop.call_soon(callback)
