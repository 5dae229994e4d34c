"""What one broker of a fleet tells the others: which topics it made, deleted or gave partitions, and whose counts have risen.

What is told at about the same time is told together. A broker that does not hear it, since it is away or does not answer, misses
it: it reads everything when it starts, clients that watch lists look again by themselves, and a ceiling may be passed by as much.
"""

from __future__ import annotations

import asyncio

import structlog

from messaging.adminrpc.methods import NEWS_TELL
from messaging.adminrpc.news import NewsTold
from messaging.background import BackgroundLoops
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.errors import MagnetarError
from messaging.protocol.names import TopicName

log = structlog.get_logger("broker.news")

TELL_S = 0.1  # after the first piece of news
KEPT_MAX = 10_000  # of each kind; those beyond are not told


class FleetNews:
    def __init__(self, owners: FleetMember, others: OtherBrokers, background: BackgroundLoops) -> None:
        self._owners = owners
        self._others = others
        self._background = background
        self._news = NewsTold()
        self._telling = False

    def topic_changed(self, name: TopicName, exists: bool) -> None:
        if len(self._news.changed) < KEPT_MAX:
            self._news.changed[str(name)] = exists
        self._tell_soon()

    def topic_grown(self, name: TopicName, partitions: int) -> None:
        if len(self._news.grown) < KEPT_MAX:
            self._news.grown[str(name)] = partitions
        self._tell_soon()

    def made(self, tenant: str) -> None:
        if tenant not in self._news.made and len(self._news.made) < KEPT_MAX:
            self._news.made.append(tenant)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._telling:
            self._telling = True
            self._background.spawn(self._tell(), "tell_news")

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_S)
        news, self._news, self._telling = self._news, NewsTold(changed={}, grown={}, made=[]), False
        await asyncio.gather(*(self._tell_one(rpc_url, news) for rpc_url in self._owners.others("rpc_url")))

    async def _tell_one(self, rpc_url: str, news: NewsTold) -> None:
        try:
            await self._others.call(rpc_url, NEWS_TELL, news, "")
        except MagnetarError as error:
            log.warning("news.not_told", rpc_url=rpc_url, error=error.message)
