"""What one broker of a fleet tells the others: which topics it made, deleted or gave partitions, and whose counts have risen.

What is told at about the same time is told together. A broker that does not hear it, since it is away or does not answer, misses
it: it reads everything when it starts, clients that watch lists look again by themselves, and a ceiling may be passed by as much.
One that does not answer is told later what happens meanwhile, and keeps none of the others waiting.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

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
KEPT_CHARACTERS_MAX = 2 << 20  # of all names, of up to four bytes each, so that a request can carry them

V = TypeVar("V")


class _Gathered:
    """What one request is to tell."""

    def __init__(self) -> None:
        self.changed: dict[str, bool] = {}
        self.grown: dict[str, int] = {}
        self.made: dict[str, None] = {}
        self._characters = 0

    def __bool__(self) -> bool:
        return bool(self.changed or self.grown or self.made)

    def put(self, kind: dict[str, V], name: str, value: V) -> None:
        if name not in kind:
            if len(kind) >= KEPT_MAX or self._characters + len(name) > KEPT_CHARACTERS_MAX:
                return
            self._characters += len(name)
        kind[name] = value

    def add(self, later: _Gathered) -> None:
        for name, exists in later.changed.items():
            self.put(self.changed, name, exists)
        for name, partitions in later.grown.items():
            self.put(self.grown, name, partitions)
        for tenant in later.made:
            self.put(self.made, tenant, None)

    def told(self) -> NewsTold:
        return NewsTold(changed=self.changed, grown=self.grown, made=list(self.made))


class FleetNews:
    """`others`: for this alone, so that nothing else keeps it waiting."""

    def __init__(self, owners: FleetMember, others: OtherBrokers, background: BackgroundLoops) -> None:
        self._owners = owners
        self._others = others
        self._background = background
        self._news = _Gathered()
        self._telling = False
        self._waiting: dict[str, _Gathered] = {}  # by the address of a broker that is being told something: what it is told next

    def topic_changed(self, name: TopicName, exists: bool) -> None:
        self._news.put(self._news.changed, str(name), exists)
        self._tell_soon()

    def topic_grown(self, name: TopicName, partitions: int) -> None:
        self._news.put(self._news.grown, str(name), partitions)
        self._tell_soon()

    def made(self, tenant: str) -> None:
        self._news.put(self._news.made, tenant, None)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._telling:
            self._telling = True
            self._background.spawn(self._tell(), "tell_news")

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_S)
        news, self._news, self._telling = self._news, _Gathered(), False
        for rpc_url in self._owners.others("rpc_url"):
            waiting = self._waiting.get(rpc_url)
            if waiting is not None:
                waiting.add(news)
            else:
                self._waiting[rpc_url] = _Gathered()
                self._background.spawn(self._tell_one(rpc_url, news), "tell_news")

    async def _tell_one(self, rpc_url: str, news: _Gathered) -> None:
        try:
            while news:
                try:
                    await self._others.call(rpc_url, NEWS_TELL, news.told(), rpc_url)
                except MagnetarError as error:
                    log.warning("news.not_told", rpc_url=rpc_url, error=error.message)
                news, self._waiting[rpc_url] = self._waiting[rpc_url], _Gathered()
        finally:
            del self._waiting[rpc_url]
