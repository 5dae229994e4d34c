"""What one broker of a fleet tells the others: which topics it made, deleted or gave partitions, and whose counts have risen.

What is told at about the same time is told together. A broker that does not hear it, since it is away or does not answer, misses
it: it reads everything when it starts, clients that watch lists look again by themselves, and a ceiling may be passed by as much.
One that does not answer is told later what happens meanwhile, and keeps none of the others waiting.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

from messaging.adminrpc.methods import NEWS_TELL
from messaging.adminrpc.news import NewsTold
from messaging.background import BackgroundLoops
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.telling import Telling
from messaging.protocol.names import TopicName

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
        self._telling = Telling(owners, others, background, NEWS_TELL, self._missed_by, logging.WARNING)
        self._background = background
        self._news = _Gathered()
        self._soon = False
        self._missed: dict[str, _Gathered] = {}  # by the address of a broker that is being told something: what it is told next

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
        if not self._soon:
            self._soon = True
            self._background.spawn(self._tell(), "tell_news")

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_S)
        news, self._news, self._soon = self._news, _Gathered(), False
        for rpc_url in self._telling.tell(news.told()):
            self._missed.setdefault(rpc_url, _Gathered()).add(news)

    def _missed_by(self, rpc_url: str) -> NewsTold | None:
        missed = self._missed.pop(rpc_url, None)
        return missed.told() if missed else None
