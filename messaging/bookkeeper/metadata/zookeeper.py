"""The metadata store of a real cluster, in ZooKeeper.

How it is spoken to is in `zookeeper_nodes.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.paths import Layout, ledger_id_of
from messaging.bookkeeper.core.racks import RackTable
from messaging.bookkeeper.errors import (
    BookkeeperError,
    MalformedMetadata,
    NoSuchLedger,
    Unavailable,
    UnsupportedLayout,
)
from messaging.bookkeeper.metadata.ledger_ids import new_ledger_id
from messaging.bookkeeper.metadata.store import (
    BookieAddress,
    CreateNode,
    DeleteNode,
    MetadataConflict,
    NodeChange,
    UnknownOutcome,
)
from messaging.bookkeeper.metadata.zookeeper_nodes import NodeSequences, ZookeeperNodes

logger = logging.getLogger("bookkeeper")
_BOOKIE_PROTOCOL = "bookie-rpc"
_INSTANCE = re.compile(r'instanceId:\s*"([^"]*)"')


class ZookeeperMetadataStore(ZookeeperNodes):
    """`hosts`: `host:port,host:port`. `racks_path`: the node in which Pulsar keeps the racks of bookies (`core/racks.py`); empty:
    all are in one. `options` go to kazoo's client as they are: `auth_data`, `default_acl`, ... Without `default_acl`, nodes are for
    those for whom `root` is.
    """

    def __init__(
        self,
        hosts: str,
        *,
        root: str = "/ledgers",
        racks_path: str = "",
        session_timeout_s: float = 30.0,
        call_timeout_s: float = 10.0,
        ssl_context: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        super().__init__(hosts, session_timeout_s, call_timeout_s, ssl_context, options)
        self._root = root.rstrip("/")
        self._racks_path = racks_path
        self._layout = Layout()
        self._instance_id: str | None = None
        self._watches: dict[int, list[Callable[[], None]]] = {}
        self._fired: dict[int, Callable[[object], None]] = {}
        self._bookie_watches: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._session_lost = False

    @property
    def session(self) -> tuple[int, bytes] | None:
        """Id and password of the session with ZooKeeper; None: there is none now."""
        session: tuple[int, bytes] | None = self._client.client_id
        return session

    @property
    def cluster_id(self) -> str:
        return self._instance_id or ""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._client.add_listener(self._session_changed)
        try:
            await asyncio.to_thread(self._client.start, self._call_timeout_s)
        except (KazooTimeoutError, AuthFailedError) as error:
            await self.stop()
            raise Unavailable(f"no ZooKeeper at {self._hosts}: {self._handler.failure or error}") from error
        try:
            self._layout = Layout.parse(await self._get(f"{self._root}/LAYOUT"))
            await self._guard_as(self._root)
        except NoNodeError:
            await self.stop()
            raise UnsupportedLayout(
                f"there is no BookKeeper cluster at {self._root} of {self._hosts}: its node LAYOUT is missing; make one with "
                "`bookkeeper shell initnewcluster`, or name another root"
            ) from None
        except BookkeeperError:
            await self.stop()
            raise
        try:
            self._instance_id = (await self._get(f"{self._root}/INSTANCEID")).decode(errors="replace")
        except NoNodeError:
            self._instance_id = None

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._client.remove_listener(self._session_changed)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._client.stop()
        self._client.close()

    # --- ledgers -----------------------------------------------------------------------------------------------------------------

    async def create(self, metadata: LedgerMetadata, along: Sequence[NodeChange] = ()) -> LedgerMetadata:
        path = self._path(metadata.ledger_id)
        try:
            if along:
                await self.change((*along, CreateNode(path, metadata.encode())))
            else:
                await self._change(self._client.create_async, path, metadata.encode(), makepath=True)
        except NodeExistsError:
            raise MetadataConflict from None
        except MetadataConflict as conflict:
            raise MetadataConflict(None if conflict.path == path else conflict.path) from None
        return replace(metadata, version=0)

    async def read(self, ledger_id: int) -> LedgerMetadata:
        try:
            data, stat = await self._call(self._client.get_async, self._path(ledger_id))
        except NoNodeError:
            raise _no_such(ledger_id) from None
        return LedgerMetadata.decode(ledger_id, data, stat.version)

    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        path = self._path(metadata.ledger_id)
        try:
            stat = await self._change(self._client.set_async, path, metadata.encode(), metadata.version)
        except BadVersionError:
            raise MetadataConflict from None
        except NoNodeError:
            raise _no_such(metadata.ledger_id) from None
        return replace(metadata, version=stat.version)

    async def delete(self, ledger_id: int, along: Sequence[NodeChange] = ()) -> None:
        path = self._path(ledger_id)
        try:
            await self.change((*along, DeleteNode(path)))
        except MetadataConflict as conflict:
            if conflict.path == path:
                raise _no_such(ledger_id) from None
            raise
        # Levels that are empty now go as well; somebody may be making a ledger in one, which then makes it again.
        parent = path.rpartition("/")[0]
        while parent != self._root:
            try:
                await self._change(self._client.delete_async, parent)
            except (NotEmptyError, NoNodeError, UnknownOutcome, Unavailable):
                return
            parent = parent.rpartition("/")[0]

    async def ledgers(self) -> AsyncIterator[int]:
        for top in sorted(await self._children(self._root)):
            if not top.isdigit() or len(top) not in (2, 3):
                continue
            levels_left = 2 if len(top) == 2 else 4
            async for ledger_id in self._below(f"/{top}", levels_left):
                yield ledger_id

    async def _below(self, path: str, levels_left: int) -> AsyncIterator[int]:
        for name in sorted(await self._children(self._root + path)):
            if levels_left > 1:
                async for ledger_id in self._below(f"{path}/{name}", levels_left - 1):
                    yield ledger_id
            elif (ledger_id_or_none := ledger_id_of(f"{path}/{name}")) is not None:
                yield ledger_id_or_none

    async def new_ledger_id(self) -> int:
        return await new_ledger_id(NodeSequences(self), self._root)

    def watch(self, ledger_id: int, changed: Callable[[], None]) -> Callable[[], None]:
        callbacks = self._watches.setdefault(ledger_id, [])
        callbacks.append(changed)
        if len(callbacks) == 1:
            self._fired[ledger_id] = self._in_loop(lambda: self._begin(self._arm(ledger_id, first=False)))
            self._begin(self._arm(ledger_id, first=True))

        def unwatch() -> None:
            if changed in callbacks:
                callbacks.remove(changed)
            if not callbacks and self._watches.get(ledger_id) is callbacks:
                del self._watches[ledger_id], self._fired[ledger_id]

        return unwatch

    async def _arm(self, ledger_id: int, first: bool) -> None:
        """Watches before it tells: what changes from here on fires again."""
        if ledger_id not in self._fired:
            return
        try:
            _, stat = await self._call(self._client.get_async, self._path(ledger_id), watch=self._fired[ledger_id])
            if first and stat.version == 0:
                return
        except (NoNodeError, BookkeeperError):
            pass
        for changed in list(self._watches.get(ledger_id, ())):
            changed()

    # --- bookies -----------------------------------------------------------------------------------------------------------------

    async def bookies(self) -> list[BookieAddress]:
        """Also watches the lists, and the racks, for `watch_bookies`."""
        racks = await self._racks()
        available = f"{self._root}/available"
        writable = [name for name in await self._children(available, self._bookies_fired) if name != "readonly"]
        read_only = await self._children(f"{available}/readonly", self._bookies_fired)
        found = [self._bookie(f"{available}/{name}", name, False) for name in writable]
        found += [self._bookie(f"{available}/readonly/{name}", name, True) for name in read_only if name not in writable]
        return [
            replace(address, rack=racks.rack_of(address.bookie, f"{address.host}:{address.port}"))
            for address in await asyncio.gather(*found)
            if address is not None
        ]

    async def _racks(self) -> RackTable:
        """What cannot be read counts for none: ledgers are rather made anywhere than nowhere."""
        path = self._racks_path
        if not path or await self._call(self._client.exists_async, path, watch=self._bookies_fired) is None:
            return RackTable()
        try:
            return RackTable.parse(await self._get(path))
        except NoNodeError:
            return RackTable()  # it went meanwhile, which fires
        except MalformedMetadata as error:
            logger.warning("racks of bookies are not heeded; see the node %s: %s", path, error)
            return RackTable()

    def watch_bookies(self, changed: Callable[[], None]) -> None:
        self._bookie_watches.append(changed)

    def _bookies_fired(self, _event: object) -> None:
        self._in_loop(self._tell_bookies)(None)

    def _tell_bookies(self) -> None:
        for changed in self._bookie_watches:
            changed()

    async def _bookie(self, path: str, name: str, read_only: bool) -> BookieAddress | None:
        try:
            data = await self._get(path)
        except NoNodeError:
            return None  # it went meanwhile
        host, _, port = name.rpartition(":")
        try:
            for endpoint in pb.BookieServiceInfo.FromString(data).endpoints:
                if endpoint.protocol == _BOOKIE_PROTOCOL or endpoint.id == "bookie":
                    host, port = endpoint.host, str(endpoint.port)
        except DecodeError:
            return BookieAddress(name, host, 0, read_only, problem="what it registered of itself cannot be read")
        if not host or not port.isdigit():
            return BookieAddress(name, host, 0, read_only, problem="it registered no address")
        return BookieAddress(name, host, int(port), read_only, problem=await self._cookie_problem(name))

    async def _cookie_problem(self, name: str) -> str | None:
        try:
            cookie = (await self._get(f"{self._root}/cookies/{name}")).decode(errors="replace")
        except NoNodeError:
            return "it has no cookie in this cluster, so nobody would miss what it stores"
        match = _INSTANCE.search(cookie)
        if match is not None and self._instance_id is not None and match[1] != self._instance_id:
            return f"its cookie is of the cluster {match[1]}, and this one is {self._instance_id}"
        return None

    # --- kazoo -------------------------------------------------------------------------------------------------------------------

    def _path(self, ledger_id: int) -> str:
        return self._root + self._layout.ledger(ledger_id)

    def _session_changed(self, state: str) -> None:
        """In a thread of kazoo. A lost session takes its watches along: look at everything again once there is a new one."""
        if state == KazooState.LOST:
            self._session_lost = True
        elif state == KazooState.CONNECTED and self._session_lost:
            self._session_lost = False
            self._in_loop(self._look_again)(None)

    def _look_again(self) -> None:
        self._tell_bookies()
        for ledger_id in list(self._watches):
            self._begin(self._arm(ledger_id, first=False))

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _no_such(ledger_id: int) -> NoSuchLedger:
    return NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
