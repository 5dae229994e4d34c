"""Admin RPC: the feed of the control plane."""

from __future__ import annotations

from messaging.adminrpc.base import Request
from messaging.adminrpc.feed import FeedApply, FeedVersion
from messaging.adminrpc.methods import FEED_APPLY, FEED_PULL, FEED_VERSION
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker


class FeedHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(FEED_APPLY)
    async def apply(self, request: FeedApply) -> FeedVersion:
        """Answers once the change is in force for open connections, too."""
        version = await self._broker.access.feed.apply(request)
        await self._broker.permission_checks.wait_until_checked()
        await self._broker.policy_changes.wait_until_told()
        return FeedVersion(version=version)

    @answers(FEED_PULL)
    async def pull(self, request: Request) -> FeedVersion:
        """Asks the web process for everything new, however much it is."""
        version = await self._broker.access.pull()
        await self._broker.permission_checks.wait_until_checked()
        await self._broker.policy_changes.wait_until_told()
        return FeedVersion(version=version)

    @answers(FEED_VERSION)
    async def version(self, request: Request) -> FeedVersion:
        return FeedVersion(version=self._broker.access.view.version)
