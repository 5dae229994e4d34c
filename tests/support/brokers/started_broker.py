"""A broker in this process as `main` starts it, over the stores of its settings, with one namespace."""

from __future__ import annotations

from contextlib import AsyncExitStack

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.main import start
from messaging.settings import Settings
from tests.support.brokers.storage_broker import NAMESPACE


async def opened(settings: Settings, stack: AsyncExitStack) -> Broker:
    service = await start(settings, stack)
    stack.push_async_callback(service.stop)
    if not service.access.view.version:
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(version=2, kind="namespace", key=NAMESPACE, state={"policies": {}}),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
    return service
