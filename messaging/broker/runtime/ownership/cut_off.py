"""What a broker does that is cut off from the metadata, while others go on: it lets its clients go.

Its connections to the database may stay, if something on the way keeps them, and then nothing that it began ever fails. Its clients
would wait for as long as the cut lasts. So it asks other brokers, once it cannot renew its session: as soon as one of them says
that the session is over, clients are closed and sent there. Where none can say that, since the metadata answer nobody, they stay:
they would come again only after a backoff that doubles.
"""

from __future__ import annotations

import asyncio

import structlog

from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokersSeen
from messaging.adminrpc.methods import BROKERS_LIST
from messaging.broker.runtime.ownership.gone_brokers import listens
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.storage.ownership import BrokerSession

log = structlog.get_logger("broker.ownership")

LOOK_S = 1.0
TIMEOUT_S = 2.0  # of a question
TOPICS_AT_ONCE = 20  # in a turn of the loop


class CutOff:
    def __init__(self, member: SharedMember, others: OtherBrokers, topics: Topics) -> None:
        self._member = member
        self._others = others
        self._topics = topics

    async def look(self) -> None:
        """Again and again, since clients come back that do not know it yet."""
        member = self._member
        if member.renews:
            member.goes_on = None
            return
        # Also those that were gone, or not ready, when the metadata last answered: they may be back, and nobody told this broker.
        others = [each for each in member.owners.sessions.values() if each.broker_id != member.broker_id]
        if not others:
            return
        answers = await asyncio.gather(*map(self._ask, others))
        takers = [each for each, seen in zip(others, answers, strict=True) if seen is not None and not self._lives(seen)]
        if not takers and (any(answers) or any(await asyncio.gather(*map(listens, others)))):
            return
        if not member.renews:  # still
            if member.goes_on is None:
                log.error("ownership.cut_off", broker_id=member.broker_id, others=[each.broker_id for each in takers])
            member.goes_on = takers[0] if takers else None
            await self._let_go()

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
