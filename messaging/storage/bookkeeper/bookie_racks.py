"""The racks of bookies, which Pulsar's tools read and change: a table in one node, for all who use these bookies."""

from __future__ import annotations

from collections.abc import Callable

from messaging.bookkeeper.core.racks import RackTable
from messaging.bookkeeper.errors import BookkeeperError, MalformedMetadata
from messaging.bookkeeper.metadata.store import CreateNode, MetadataConflict, MetadataStore, SetNode, UnknownOutcome
from messaging.storage.bookkeeper.store_errors import WHAT, told
from messaging.storage.ledger_store import StoreError, Unreachable

ATTEMPTS_MAX = 20  # of a change that met another one


class BookieRacks:
    """Every call raises `StoreError`. Whoever places ledgers sees a change by a watch, a moment later."""

    def __init__(self, metadata: MetadataStore, path: str) -> None:
        self._metadata = metadata
        self._path = path

    async def table(self) -> RackTable:
        return (await self._stored())[0]

    async def change(self, change: Callable[[RackTable], RackTable]) -> RackTable:
        """Stores what `change` makes of the table, which may be called again if somebody else changed it meanwhile, and returns
        what was there before."""
        sent: tuple[RackTable, bytes] | None = None  # of an attempt whose outcome is not known
        for _ in range(ATTEMPTS_MAX):
            before, version, found = await self._stored()
            if sent is not None and found == sent[1]:
                return sent[0]
            try:
                data = change(before).encode()
                stored = CreateNode(self._path, data) if version is None else SetNode(self._path, data, version)
                await self._metadata.change([stored])
            except MetadataConflict:
                continue
            except UnknownOutcome:
                sent = before, data
                continue
            except BookkeeperError as error:
                raise told(error) from error
            return before
        raise Unreachable(f"{WHAT}: whether the racks were changed is not known: the node {self._path} changes all the time")

    async def _stored(self) -> tuple[RackTable, int | None, bytes]:
        """With the version of its node, where there is one, and what is in it."""
        try:
            node = await self._metadata.node(self._path)
            return (RackTable(), None, b"") if node is None else (RackTable.parse(node.data), node.version, node.data)
        except MalformedMetadata as error:
            raise StoreError(f"{WHAT}: the node {self._path} cannot be used, and was left as it is: {error}") from error
        except BookkeeperError as error:
            raise told(error) from error
