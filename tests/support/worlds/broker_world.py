"""A broker on a real socket, over stores in memory that fail on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.listeners import Addresses
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.identity import create_secrets, issue_token
from messaging.policies.model import Level
from messaging.settings import Settings
from messaging.storage.managed.cursor_log import RETRY_S
from tests.support.brokers.broker_over import broker_over
from tests.support.clients.raw_client import RawClient
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore

# key name -> role; the key id is the same as the key name
KEYS = {
    "writer": "writer@acme",
    "reader": "reader@acme",
    "owner": "owner@acme",
    "stranger": "stranger@other",
    "superuser": "admin",
}
FEED: list[tuple[str, str, dict[str, Any]]] = [
    ("tenant", "public", {"admin_roles": []}),
    ("tenant", "acme", {"admin_roles": ["owner@acme"]}),
    ("tenant", "other", {"admin_roles": ["boss@other"]}),
    ("namespace", "public/default", {}),
    ("namespace", "acme/orders", {"grants": {"writer@acme": ["produce"], "reader@acme": ["consume"]}}),
    ("namespace", "acme/strict", {"policies": {"auto_topic_creation": False}}),
    ("namespace", "other/things", {"grants": {"stranger@other": ["produce", "consume"]}}),
    *(("key", name, {"role": role, "tenant": role.rpartition("@")[2], "revoked": False}) for name, role in KEYS.items()),
]


@dataclass
class BrokerWorld:
    service: Broker
    ledgers: FaultyLedgerStore
    meta: MemoryMetaStore
    port: int
    policy_level: Level = Level.NAMESPACE  # at which `tests.support.policies` sets policies
    clients: list[RawClient] = field(default_factory=list)
    admin: AdminHandlers = field(init=False)
    sessions: LocalSessions = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminHandlers(self.service)
        self.sessions = LocalSessions(self.service)

    async def client(self) -> RawClient:
        client = await RawClient.open(self.port)
        self.clients.append(client)
        return client

    def token(self, key: str) -> str:
        return issue_token(self.service.settings, KEYS[key], key, int(time.time()))

    async def connected(self, key: str | None = "superuser") -> RawClient:
        """A client that has said who it is; None: nobody."""
        client = await self.client()
        await client.connect(self.token(key) if key else None)
        return client

    async def feed(self, *changes: tuple[str, str, dict[str, Any] | None]) -> None:
        """The control plane's next word."""
        version = self.service.access.view.version
        listed = [FeedChange(version=version + 1, kind=kind, key=key, state=state) for kind, key, state in changes]
        await self.admin.feed.apply(FeedApply(from_version=version, to_version=version + 1, changes=listed))


MakeWorld = Callable[..., Awaitable[BrokerWorld]]


@pytest.fixture
async def make_world(tmp_path: Path) -> AsyncIterator[MakeWorld]:
    ends: list[Callable[[], Awaitable[None]]] = []

    async def make(*, after: BrokerWorld | None = None, **settings: Any) -> BrokerWorld:
        """`after`: on what that one left when it was killed, this instant."""
        configured = Settings(data_dir=str(tmp_path), **settings)
        create_secrets(configured)
        if after is None:
            memory, meta = MemoryLedgerStore(entry_bytes_max=configured.message_bytes_max + 65_536), MemoryMetaStore()
        else:
            assert isinstance(after.ledgers.store, MemoryLedgerStore)
            memory, meta = MemoryLedgerStore(after.ledgers.store), after.meta
        ledgers = FaultyLedgerStore(memory)
        service = await broker_over(configured, ledgers, meta, cursor_retry_s=RETRY_S)
        commands = Commands(service)
        service.before_stop.append(commands.stop)
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(service, commands, tls=False), host="127.0.0.1", port=0
        )
        port = listener.sockets[0].getsockname()[1]
        service.addresses = Addresses(f"pulsar://127.0.0.1:{port}", "", "", "")
        listed = [FeedChange(version=1, kind=kind, key=key, state=dict(state)) for kind, key, state in FEED]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=listed))
        world = BrokerWorld(service, ledgers, meta, port)

        async def end() -> None:
            for client in world.clients:
                await client.close()
            ledgers.heal()
            ledgers.release()
            await service.stop()
            listener.close()
            await listener.wait_closed()

        ends.append(end)
        return world

    yield make
    for end in ends:
        await end()


@pytest.fixture
def policy_level(request: pytest.FixtureRequest) -> Level:
    return getattr(request, "param", Level.NAMESPACE)


@pytest.fixture
async def world(make_world: MakeWorld, policy_level: Level) -> BrokerWorld:
    made = await make_world()
    made.policy_level = policy_level
    return made
