"""Admin RPC: the feed of the control plane."""

from __future__ import annotations

from messaging.adminrpc import schema
from messaging.broker.runtime.broker import Broker


class FeedHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def apply(self, request: schema.FeedApply) -> schema.FeedVersion:
        """Answers once the change is in force for open connections, too."""
        version = await self._broker.access.apply(request)
        await self._broker.permission_checks.wait_until_checked()
        await self._broker.policy_changes.wait_until_told()
        return schema.FeedVersion(version=version)

    async def pull(self, request: schema.Request) -> schema.FeedVersion:
        """Asks the web process for everything new, however much it is."""
        version = await self._broker.access.pull()
        await self._broker.permission_checks.wait_until_checked()
        await self._broker.policy_changes.wait_until_told()
        return schema.FeedVersion(version=version)

    async def version(self, request: schema.Request) -> schema.FeedVersion:
        return schema.FeedVersion(version=self._broker.access.view.version)
