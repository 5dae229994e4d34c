"""The broker's HTTP listeners over a real broker with stores in memory, and a WebSocket client to talk to them with."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import websockets

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.core.subscription import Subscription
from messaging.broker.http import HttpListeners, start_http
from messaging.broker.http.context import Edge as ServedEdge
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.local.messages import DeliveredMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.topic import Topic
from messaging.identity import issue_token, service_token
from messaging.settings import Settings, load
from messaging.storage.ledger_store import Position
from tests.support.brokers.broker_over import broker_over
from tests.support.brokers.storage_broker import ADMIN, Inbox
from tests.support.edge_lines import MethodLine, SessionLine
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.waiting import eventually

NOW_MS = 1_700_000_000_123  # of the broker's clock, which stands still
FIXED = "persistent://acme/fixed"  # a namespace where no topic is created by using it
ROLES = ("admin", "writer@acme", "reader@acme", "app@acme", "someone@other")  # each has a key of its name
GRANTS: dict[str, list[str]] = {"writer@acme": ["produce"], "reader@acme": ["consume"], "app@acme": ["produce", "consume"]}


def changes() -> list[FeedChange]:
    """What the web process tells the broker: `GRANTS` hold in every namespace of acme."""
    namespaces: dict[str, dict[str, Any]] = {
        "public/default": {"policies": {}},
        "acme/orders": {"policies": {}, "grants": GRANTS},
        "acme/fixed": {"policies": {"auto_topic_creation": False}, "grants": GRANTS},
    }
    tenants = [FeedChange(version=1, kind="tenant", key=name, state={"admin_roles": []}) for name in ("public", "acme", "other")]
    namespace_changes = [FeedChange(version=1, kind="namespace", key=name, state=state) for name, state in namespaces.items()]
    keys = [
        FeedChange(
            version=1,
            kind="key",
            key=role,
            state={"role": role, "tenant": role.partition("@")[2], "revoked": False, "expires_ms": 0},
        )
        for role in ROLES
    ]
    return [*tenants, *namespace_changes, *keys]


def bound(port: int = 0) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class Edge:
    """`sessions` and `rpc` are the lines between the listeners and `broker`, where a test looks and breaks in."""

    listeners: HttpListeners

    def __init__(self, broker: Broker, *, tls: ssl.SSLContext | None = None) -> None:
        self.broker = broker
        self.settings = broker.settings
        self.sessions = SessionLine(LocalSessions(broker))
        self.rpc = MethodLine(AdminHandlers(broker).methods)
        self._tls = tls

    async def listen(self, port: int = 0) -> None:
        """`port`: of the public listener."""
        self.listeners = await start_http(
            self.served(),
            self.settings,
            rpc_sock=bound(),
            ws_sock=bound(port),
            tls_context=self._tls,
            clock_ms=self.broker.now_ms,
        )

    def served(self) -> ServedEdge:
        return ServedEdge(self.broker, self.sessions, partial(broker_samples, self.broker), self.rpc.methods)

    def token(self, role: str, expires_s: int | None = None) -> str:
        """One of the tokens of a role's key; of a role that is not in `ROLES`, the broker does not know the key."""
        return issue_token(self.settings, role, role, 0, expires_s)

    @property
    def identity(self) -> str:
        """The token of the web process."""
        return service_token(self.settings, "web")

    # --- what the broker knows

    @property
    def topics(self) -> dict[str, Topic]:
        """Those that are loaded: every one that was ever opened here."""
        return self.broker.topics.loaded

    def subscription(self, topic: str, name: str = "billing") -> Subscription:
        return self.topics[topic].subscriptions.table[name]

    def entries(self, topic: str) -> int:
        return self.topics[topic].ledger_list.entries

    def acknowledged(self, topic: str, subscription: Subscription | None = None) -> set[int]:
        """Entry ids, of a topic with one ledger."""
        cursor = (subscription or self.subscription(topic)).cursor
        ledger_id = self.topics[topic].ledger_list.last_id
        return {number for number in range(self.entries(topic)) if cursor.acknowledged(Position(ledger_id, number))}

    async def stored(self, topic: str) -> list[DeliveredMessage]:
        """Its messages, read by a reader from the beginning."""
        inbox = Inbox()
        sessions = LocalSessions(self.broker)
        reader = await sessions.open_consumer(ADMIN, topic, "check", "Exclusive", "earliest", False, None, inbox)
        reader.flow(self.entries(topic) + 1)
        await eventually(lambda: len(inbox.messages) >= self.entries(topic))
        reader.close()
        return inbox.messages

    # --- as a client

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.listeners.ws_port}"

    @asynccontextmanager
    async def connect(self, path: str, **options: Any) -> AsyncIterator[websockets.ClientConnection]:
        options.setdefault("proxy", None)
        async with websockets.connect(f"{self.ws_url}{path}", **options) as connection:
            yield connection

    async def refused(self, path: str, **options: Any) -> tuple[int, dict[str, str]]:
        """Status and body of an upgrade that must not succeed."""
        try:
            async with self.connect(path, **options):
                raise AssertionError(f"{path} was accepted")
        except websockets.InvalidStatus as error:
            return error.response.status_code, json.loads(error.response.body or b"{}")


@asynccontextmanager
async def running_edge(
    *, tls: ssl.SSLContext | None = None, clock_ms: Callable[[], int] | None = None, port: int = 0, **settings: Any
) -> AsyncIterator[Edge]:
    """`clock_ms`: of the broker, instead of one that stands still at `NOW_MS`."""
    with tempfile.TemporaryDirectory(prefix="magnetar-edge-") as folder:
        (Path(folder) / "secrets").symlink_to(load().data_path / "secrets")
        configured = Settings(data_dir=folder, **settings)
        memory = MemoryLedgerStore(entry_bytes_max=configured.message_bytes_max + 65_536)
        broker = await broker_over(configured, memory, MemoryMetaStore(), now_ms=clock_ms or (lambda: NOW_MS), fetch=_nobody)
        try:
            await broker.access.feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=changes()))
            edge = Edge(broker, tls=tls)
            await edge.listen(port)
            try:
                yield edge
            finally:
                await edge.listeners.stop()
        finally:
            await broker.stop()
            await broker.cursors.stop()


def _nobody(since: int, feed_id: str, after: str) -> FeedApply:
    raise OSError("there is no web process")


async def receive_json(connection: websockets.ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(connection.recv(), 10))


async def send_json(connection: websockets.ClientConnection, **frame: Any) -> None:
    await connection.send(json.dumps(frame))
