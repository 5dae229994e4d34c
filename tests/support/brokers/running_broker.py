"""A whole broker in this process: real storage in a directory, real listeners on free ports, a feed that a test says."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import start
from messaging.identity import create_secrets, issue_token
from messaging.settings import Settings

KEYS = {"writer": "writer@acme", "reader": "reader@acme", "owner": "owner@acme", "superuser": "admin"}
GRANTS = {"writer@acme": ["produce"], "reader@acme": ["consume"], "owner@acme": ["produce", "consume"]}


class RunningBroker:
    """Tenants `public` and `acme`, namespaces `public/default` and `acme/orders`, a key for each of `KEYS`."""

    def __init__(self, service: Broker) -> None:
        self.service = service
        self.admin = AdminHandlers(service)
        self.sessions = LocalSessions(service)

    @property
    def ws_url(self) -> str:
        return self.service.addresses.ws_url.replace("0.0.0.0", "127.0.0.1")

    @property
    def ws_port(self) -> int:
        return urlsplit(self.service.addresses.ws_url).port or 0

    @property
    def port(self) -> int:
        return urlsplit(self.service.addresses.broker_url).port or 0

    def token(self, key: str) -> str:
        return issue_token(self.service.settings, KEYS[key], key, int(time.time()))

    async def tell(self) -> None:
        await self.say(
            ("tenant", "public", {"admin_roles": []}),
            ("tenant", "acme", {"admin_roles": []}),
            ("namespace", "public/default", {}),
            ("namespace", "acme/orders", {"grants": GRANTS}),
            *(("key", key, {"role": role, "tenant": role.rpartition("@")[2], "revoked": False}) for key, role in KEYS.items()),
        )

    async def say(self, *changes: tuple[str, str, dict[str, Any] | None]) -> None:
        """The control plane's next word."""
        version = self.service.access.view.version
        listed = [FeedChange(version=version + 1, kind=kind, key=key, state=state) for kind, key, state in changes]
        await self.admin.feed.apply(FeedApply(from_version=version, to_version=version + 1, full=not version, changes=listed))

    async def revoke(self, key: str) -> None:
        await self.say(("key", key, {"role": KEYS[key], "tenant": KEYS[key].rpartition("@")[2], "revoked": True}))


@asynccontextmanager
async def running_broker(folder: Path, *, told: bool = True, **settings: Any) -> AsyncIterator[RunningBroker]:
    """`told`: the control plane told it of the tenants; else the test does by `tell`."""
    configured = Settings(data_dir=str(folder), broker_port=0, ws_port=0, broker_rpc_port=0, **settings)
    create_secrets(configured)
    async with AsyncExitStack() as stack:
        broker = RunningBroker(await start(configured, stack))
        if told:
            await broker.tell()
        yield broker
        await broker.service.stop()
