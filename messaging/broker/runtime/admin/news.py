"""Admin RPC: what other brokers of the fleet tell this one."""

from __future__ import annotations

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import NEWS_TELL, USE_OPEN_BYTES, USE_TELL
from messaging.adminrpc.news import NewsTold, OpenBytes, OpenBytesAsked, UseTold
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.stored import open_bytes_of
from messaging.protocol.names import parse_topic


class NewsHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(NEWS_TELL)
    async def hear(self, request: NewsTold) -> Empty:
        broker = self._broker
        for text, exists in request.changed.items():
            name = parse_topic(text)
            if not exists:
                broker.policies.topic_deleted(name)
            broker.topic_watches.list_changed(name, exists)
            broker.topic_followers.list_changed(name, exists)
        for text, partitions in request.grown.items():
            broker.topics.partitioned.has_grown(parse_topic(text), partitions)
        for tenant in request.made:
            for counts in broker.stored_counts:
                counts.heard(tenant)
        return Empty()

    @answers(USE_TELL)
    async def hear_use(self, request: UseTold) -> Empty:
        if self._broker.fleet_limits is not None:
            self._broker.fleet_limits.hear(request)
        return Empty()

    @answers(USE_OPEN_BYTES)
    async def open_bytes(self, request: OpenBytesAsked) -> OpenBytes:
        return OpenBytes(open_bytes=await open_bytes_of(self._broker.topics, request.tenant))
