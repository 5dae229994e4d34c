"""Calls to ZooKeeper from an event loop, and nodes of the caller's own there.

The library for ZooKeeper (kazoo) has threads: each call hands its result over to the event loop, and nothing else of it leaves
this module and that of the metadata store. It must not be started before a fork. Requests that are made without a connection wait
for one, so each call has a time limit; a change whose answer did not come may be carried out later, and is of a version, so it is
carried out at most once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import SequentialThreadingHandler

from messaging.bookkeeper.errors import AccessRefused, Unavailable
from messaging.bookkeeper.metadata.ledger_ids import Sequences
from messaging.bookkeeper.metadata.store import (
    CheckNode,
    CreateNode,
    MetadataConflict,
    MetadataStore,
    Node,
    NodeChange,
    SetNode,
    UnknownOutcome,
)

_PARENTS_MAX = 5  # times that missing nodes above are made before a change: somebody else may delete them meanwhile


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # it has no types
    """Its threads. It keeps why the last connection failed, which kazoo tells its log alone, and trusts whom `ssl_context` trusts:
    kazoo would trust the authorities of the system, too, and leave sockets open."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._ssl_context = ssl_context
        self.failure = ""

    def create_connection(self, *, address: tuple[str, int], hostname: str, timeout: float, **options: Any) -> socket.socket:
        try:
            connected = socket.create_connection(address, timeout)
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self._ssl_context is not None:
                    return self._ssl_context.wrap_socket(connected, server_hostname=hostname)
                return connected
            except BaseException:
                connected.close()
                raise
        except OSError as error:  # `ssl.SSLError`, too
            self.failure = str(error)
            raise


class ZookeeperNodes(MetadataStore):
    """The part of the metadata store that knows no ledgers. `options` go to kazoo's client as they are."""

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        call_timeout_s: float,
        ssl_context: ssl.SSLContext | None,
        options: dict[str, Any],
    ) -> None:
        self._hosts = hosts
        self._call_timeout_s = call_timeout_s
        self._handler = Handler(ssl_context)
        tls = ssl_context is not None  # it reads from such sockets in another way
        self._client = KazooClient(hosts=hosts, timeout=session_timeout_s, handler=self._handler, use_ssl=tls, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    async def node(self, path: str) -> Node | None:
        try:
            data, stat = await self._call(self._client.get_async, path)
        except NoNodeError:
            return None
        return Node(bytes(data), stat.version)

    async def names_below(self, path: str) -> list[str]:
        return list(await self._children(path))

    async def change(self, changes: Sequence[NodeChange]) -> None:
        for _ in range(_PARENTS_MAX):
            orphan = await self._transact(changes)
            if orphan is None:
                return
            await self._change(self._client.ensure_path_async, orphan.rpartition("/")[0])
        raise Unavailable(f"the nodes above {orphan} vanish as fast as they are made")

    async def next_of_sequence(self, path: str) -> int:
        """See `Sequences`."""
        prefix = f"{path}/ID-"
        try:
            made: str = await self._change(self._client.create_async, prefix, b"", ephemeral=True, sequence=True, makepath=True)
        except UnknownOutcome:
            raise Unavailable("ZooKeeper did not answer with an id for a ledger") from None
        try:
            await self._change(self._client.delete_async, made)
        except (NoNodeError, UnknownOutcome, Unavailable):
            pass  # it goes with the session
        return int(made.removeprefix(prefix))

    async def _transact(self, changes: Sequence[NodeChange]) -> str | None:
        """None if it was done, else the path of the node that has none above it."""
        transaction = self._client.transaction()
        for change in changes:
            if isinstance(change, CheckNode):
                transaction.check(change.path, change.version)
            elif isinstance(change, CreateNode):
                transaction.create(change.path, change.data)
            elif isinstance(change, SetNode):
                transaction.set_data(change.path, change.data, change.version)
            else:
                transaction.delete(change.path)
        for change, result in zip(changes, await self._change(transaction.commit_async), strict=True):
            if isinstance(result, NoAuthError):
                raise AccessRefused(f"ZooKeeper refuses access to {change.path}: the client lacks the permission") from result
            if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                if isinstance(change, CreateNode) and isinstance(result, NoNodeError):
                    return change.path
                raise MetadataConflict(change.path) from result
        return None

    # --- kazoo -------------------------------------------------------------------------------------------------------------------

    async def _guard_as(self, path: str) -> None:
        """Nodes that are made from now on may be read and changed by whom that one may be. If ours were for us alone, bookies could
        neither repair our ledgers nor free their space."""
        if self._client.default_acl is None:
            self._client.default_acl, _ = await self._call(self._client.get_acls_async, path)

    async def _get(self, path: str) -> bytes:
        data, _ = await self._call(self._client.get_async, path)
        return bytes(data)

    async def _children(self, path: str, watch: Callable[[object], None] | None = None) -> Sequence[str]:
        try:
            children: Sequence[str] = await self._call(self._client.get_children_async, path, watch=watch)
        except NoNodeError:
            return ()
        return children

    async def _change(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return await self._call(function, *arguments, **options)
        except Unavailable as error:
            raise UnknownOutcome from error

    async def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Raises `Unavailable`, `AccessRefused`, and kazoo's errors that say what is stored."""
        if self._pid != os.getpid():
            raise RuntimeError(
                "this process was forked after its connection to ZooKeeper began; start the store in the child instead"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any) -> None:
            if not future.done():
                if result.successful():
                    future.set_result(result.value)
                else:
                    future.set_exception(result.exception)

        def from_thread(result: Any) -> None:
            try:
                loop.call_soon_threadsafe(settle, result)
            except RuntimeError:
                pass  # the loop ended before the answer came

        try:
            function(*arguments, **options).rawlink(from_thread)
            async with asyncio.timeout(self._call_timeout_s):
                return await future
        except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError):
            raise
        except (NoAuthError, AuthFailedError) as error:
            what = arguments[0] if arguments else "some nodes"
            raise AccessRefused(f"ZooKeeper refuses access to {what}: the client lacks the permission") from error
        except TimeoutError:
            raise Unavailable(f"ZooKeeper at {self._hosts} did not answer within {self._call_timeout_s:g} s") from None
        except KazooException as error:
            raise Unavailable(f"ZooKeeper at {self._hosts}: {type(error).__name__} {error}".rstrip()) from error

    def _in_loop(self, callback: Callable[[], None]) -> Callable[[object], None]:
        def from_thread(_event: object) -> None:
            loop = self._loop
            if loop is not None:
                try:
                    loop.call_soon_threadsafe(callback)
                except RuntimeError:
                    pass  # the loop ended

        return from_thread


class NodeSequences(Sequences):
    def __init__(self, store: ZookeeperNodes) -> None:
        self._store = store

    async def next_of(self, path: str) -> int:
        return await self._store.next_of_sequence(path)

    async def names_below(self, path: str) -> list[str] | None:
        return None if await self._store.node(path) is None else await self._store.names_below(path)

    async def make(self, path: str) -> None:
        try:
            await self._store.change([CreateNode(path)])
        except MetadataConflict:
            pass
        except UnknownOutcome:
            raise Unavailable("ZooKeeper did not answer with an id for a ledger") from None
