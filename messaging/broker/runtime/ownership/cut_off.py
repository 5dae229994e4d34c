"""What a broker does that is cut off from the metadata, while others go on: it lets its clients go.

Its connections to the database may stay, if something on the way keeps them, and then nothing that it began ever fails. Its clients
would wait for as long as the cut lasts. So it asks other brokers, once it cannot renew its session, and does with its clients as
`core/ownership/letting_go.py` decides: those that are let go while the metadata answer nobody would come again only after a backoff
that doubles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokersSeen
from messaging.adminrpc.methods import BROKERS_LIST
from messaging.broker.core.ownership.letting_go import Heard, LettingGo
from messaging.broker.runtime.ownership.gone_brokers import listens
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.topics.topic import Topic
from messaging.clock import passed_s
from messaging.errors import MagnetarError
from messaging.storage.ownership import BrokerSession

log = structlog.get_logger("broker.ownership")

LOOK_S = 1.0
TIMEOUT_S = 2.0  # of a question
TOPICS_AT_ONCE = 20  # in a turn of the loop


class CutOff:
    def __init__(
        self, member: SharedMember, others: OtherBrokers, topics: Topics, *, now_s: Callable[[], float] = passed_s
    ) -> None:
        self._member = member
        self._others = others
        self._topics = topics
        self._now_s = now_s
        self._letting_go = LettingGo()

    async def look(self) -> None:
        """Again and again, since clients come back that do not know it yet."""
        member = self._member
        if member.renews:
            member.goes_on = None
            self._letting_go = LettingGo()
            return
        # Also those that were gone, or not ready, when the metadata last answered: they may be back, and nobody told this broker.
        others = [each for each in member.owners.sessions.values() if each.broker_id != member.broker_id]
        heard = list(zip(others, await asyncio.gather(*map(self._hear, others)), strict=True))
        go = self._letting_go.decide(heard, self._now_s())
        if go is not None and not member.renews:  # still
            if member.goes_on is None:
                log.error("ownership.cut_off", broker_id=member.broker_id, taker=go.taker and go.taker.broker_id)
            member.goes_on = go.taker
            await self._let_go()

    async def _hear(self, other: BrokerSession) -> Heard:
        seen = await self._ask(other)
        if seen is not None:
            return Heard.LIVES if self._lives(seen) else Heard.OVER
        return Heard.LISTENS if await listens(other) else Heard.NOTHING

    async def _ask(self, other: BrokerSession) -> BrokersSeen | None:
        rpc_url = other.addresses.get("rpc_url", "")
        if not rpc_url:
            return None
        try:
            return await self._others.perform(rpc_url, BROKERS_LIST, Request(), rpc_url, TIMEOUT_S)
        except MagnetarError:
            return None

    def _lives(self, seen: BrokersSeen) -> bool:
        return any(each.live for each in seen.brokers if each.broker_id == self._member.broker_id)

    async def _let_go(self) -> None:
        used = [topic for topic in self._topics if topic.used and topic.name.tenant != OWN_TENANT]
        for number, topic in enumerate(used, 1):
            _disconnect(topic)
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)


def _disconnect(topic: Topic) -> None:
    """Nothing is stored, and the topic stays open: if the metadata answer in time, clients that come back find it."""
    topic.producers.close_all()
    for subscription in list(topic.subscriptions.table.values()):
        for consumer in list(subscription.consumers):
            topic.consumers.disconnect(subscription, consumer)
