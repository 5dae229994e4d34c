"""What the publishers of both kinds of topics have: counters, limits, and the order of receipts."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.topics.backlog.quota import TopicBacklogQuota
from messaging.broker.runtime.topics.delayed.limits import DelayCheck, DelayLimits, delay_limits
from messaging.broker.runtime.topics.limits import publish_limits
from messaging.broker.runtime.topics.limits.stored_bytes import TenantBytes
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.protocol.hot import BlockSummary, SendFrame
from messaging.storage.block_header import Extensions
from messaging.storage.managed.ledger import ManagedLedger

Act = Callable[[bool], None]


class TopicPublisher(ABC):
    __slots__ = (
        "bytes_in",
        "chunks_published",
        "delay_limits",
        "last_published_ms",
        "ledger",
        "limits",
        "message_bytes_max",
        "messages_in",
        "publish_us",
        "publish_us_max",
        "quota",
        "stored_limit",
        "timed_publishes",
        "topic",
    )

    def __init__(self, topic: TopicContext, ledger: ManagedLedger) -> None:
        self.topic = topic
        self.ledger = ledger
        self.limits = publish_limits.following(None, self)  # None: no rate limits
        self.quota: TopicBacklogQuota | None = None  # of the backlog
        self.delay_limits: DelayLimits | None = None
        self.stored_limit: TenantBytes | None = None  # of the tenant's bytes on all topics
        self.message_bytes_max = 0  # policy max_message_size_bytes; 0: no limit of the topic
        self.messages_in = 0
        self.bytes_in = 0
        self.chunks_published = False  # since the topic was loaded
        self.last_published_ms = 0
        self.timed_publishes = self.publish_us = 0  # of the blocks whose time to the receipt was measured
        self.publish_us_max = 0  # since the last point of history

    @abstractmethod
    def publish(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int:
        """Publishes one block of a producer; receipts are sent through its sink. Returns the number of bytes that are in flight,
        or parked until the rate limits allow them: `append_completed` follows for them. `extensions`: of the header."""

    @abstractmethod
    def run_after_pending(self, act: Act) -> None:
        """Calls `act` after the receipts of everything published so far: immediately if nothing is pending. `act` gets whether the
        last of it was stored."""

    def last_sequence_id(self, producer_name: bytes) -> int:
        """The highest sequence id accepted from a producer of this name; -1 if there is none or deduplication is off."""
        return -1

    def run_in_order(self, producer: Producer, act: Act) -> None:
        """The same after the receipts of everything that `producer` has published, also of what rate limits hold back."""
        if self.limits is None:
            self.run_after_pending(act)
        else:
            self.limits.run_in_order(producer, act)

    async def wait_for_pending(self, producer: Producer | None = None) -> bool:
        """Returns after the receipts of everything published so far, or, with `producer`, of everything that it has published:
        whether the last of it was stored."""
        completed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        told = partial(_tell, completed)
        if producer is None:
            self.run_after_pending(told)
        else:
            self.run_in_order(producer, told)
        return await completed

    def drop_parked(self, producer: Producer) -> None:
        """It was closed: what rate limits hold back of it is not published."""
        if self.limits is not None:
            self.limits.drop(producer)

    def delivery_time_max(self, now_ms: int) -> int | None:
        """The latest delivery time that may be asked for now; None: any."""
        limits = self.delay_limits
        return now_ms + limits.longest_ms if limits is not None and limits.longest_ms else None

    def delay_check(self) -> DelayCheck | None:
        """For messages that are to be published now; None: any delivery time may be asked for."""
        return None if self.delay_limits is None else DelayCheck(self.topic, self.delay_limits, self.topic.services.clock_ms())

    def follow_policies(self) -> None:
        """Policies of the topic have changed, or it is being loaded."""
        services, name = self.topic.services, self.topic.name
        self.message_bytes_max = int(services.policies.value("max_message_size_bytes", name))
        self.delay_limits = delay_limits(services.policies, name)

    def policies_changed(self) -> None:
        self.follow_policies()
        self.limits = publish_limits.following(self.limits, self)

    def close(self) -> None:
        """What rate limits hold back is not published any more."""
        if self.limits is not None:
            self.limits.close()


def _tell(completed: asyncio.Future[bool], stored: bool) -> None:
    if not completed.done():
        completed.set_result(stored)
