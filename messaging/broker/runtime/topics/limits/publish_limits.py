"""The publish rate limits of one topic, and the messages that wait for them. A topic without limits has none of this.

What exceeds the limits is parked: it is accepted and stored later, in the order of each producer, the producers in turn. It counts
as in flight for its connection, which is not read while too much of it is parked (`core/memory/ingress_limiter.py`).
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from messaging.broker.core.limits.rate_limits import (
    NO_LIMIT,
    NOTHING_ALLOWED,
    Allowance,
    LevelLimiter,
    RateLevel,
    RateLimit,
    Throttle,
)
from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.topics.services import OWN_TENANT, TopicServices
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.protocol import hot
from messaging.protocol.hot import BlockSummary, SendFrame
from messaging.protocol.names import TopicName
from messaging.storage.block_header import Extensions
from messaging.storage.ledger_store import StoreError

PIECES_A_TURN = 16
PIECE_MESSAGES_MAX = 2048
ACT_BYTES = 512  # of what waits for its place among the messages, as a refusal does
PUBLISH_RATE = "publish_rate"

Act = Callable[[bool], None]


class LimitPublisher(Protocol):
    """The interface of the publisher that its limits use."""

    limits: PublishLimits | None

    @property
    def topic(self) -> TopicContext: ...

    def publish(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int: ...

    def run_after_pending(self, act: Act) -> None: ...


class ParkedBlock:
    """The messages of one read from offset `at` on."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def first(self, most: int) -> list[SendFrame]:
        frames: list[SendFrame] = []
        hot.scan(self.data, self.at, len(self.data), frames, True, most)
        return frames

    def taken_up_to(self, at: int) -> None:
        """No more is kept than twice of what is left."""
        self.at = at
        if 2 * at > len(self.data):
            self.data, self.at = self.data[at:], 0


class PublishRate(NamedTuple):
    limit: RateLimit
    levels: tuple[LevelLimiter, ...]  # those that topics share

    @property
    def unlimited(self) -> bool:
        return self.limit.unlimited and not self.levels


def publish_rate(services: TopicServices, name: TopicName) -> PublishRate:
    policy = services.policies.value
    if name.tenant == OWN_TENANT:  # it has to answer whatever clients do
        return PublishRate(NO_LIMIT, ())
    own = RateLimit.per_period(policy("publish_rate_messages", name), policy("publish_rate_bytes", name))
    return PublishRate(own, services.limits.rate_limits.publish.of(name))


def following(current: PublishLimits | None, publisher: LimitPublisher) -> PublishLimits | None:
    """The limits as the policies have them now; None: there are none, and nothing is parked. `current`: those until now, to which
    what was published counts."""
    rate = publish_rate(publisher.topic.services, publisher.topic.name)
    if current is not None:
        return current.follow(rate)
    return None if rate.unlimited else PublishLimits(publisher, rate)


class PublishLimits:
    """`passing`: what is published now is allowed."""

    __slots__ = ("_own", "_parked", "_publisher", "_throttle", "passing")

    def __init__(self, publisher: LimitPublisher, rate: PublishRate) -> None:
        self._publisher = publisher
        self._own: LevelLimiter | None = None
        self._parked: OrderedDict[Producer, deque[ParkedBlock | Act]] = OrderedDict()  # in the order of their turns
        self.passing = False
        timers = publisher.topic.services.limits.rate_limits.timers
        self._throttle = Throttle(publisher.topic.name.tenant, (), self._go_on, timers.begin)
        self._throttle.follow(self._levels(rate))

    @property
    def blocked_by(self) -> LevelLimiter | None:
        """The level that parked messages wait for."""
        return self._throttle.blocked_by

    @property
    def waits(self) -> int:
        """How often something was parked, or had to wait again."""
        return self._throttle.waits.total()

    def parked_bytes(self, producer: Producer) -> int:
        return sum(len(part.data) - part.at for part in self._parked.get(producer, ()) if isinstance(part, ParkedBlock))

    # --- publishing

    def publish(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int:
        """As `Publisher.publish`; returns the number of bytes appended or parked. What the broker itself publishes (it has
        extensions) counts, but does not wait."""
        if extensions:
            return self._pass(producer, buf, sent, summary, extensions)
        allowance = self._allowance() if producer not in self._parked else NOTHING_ALLOWED
        count = _within(sent, summary, allowance)
        if count == len(sent):
            return self._pass(producer, buf, sent, summary)
        size = self._pass(producer, buf, sent[:count], hot.summarize(sent[:count])) if count else 0
        if producer.closed:  # it was refused
            return size
        rest = b"".join([buf[frame.start : frame.end] for frame in sent[count:]])
        self._parked.setdefault(producer, deque()).append(ParkedBlock(rest))
        producer.sink.parked(len(rest))
        if count and self._allowance():
            asyncio.get_running_loop().call_soon(self._go_on)
        return size + len(rest)

    def run_in_order(self, producer: Producer, act: Act) -> None:
        """Calls `act` after the receipts of everything that the producer has published; with False if that is not stored."""
        parked = self._parked.get(producer)
        if parked is None:
            self._publisher.run_after_pending(act)
        else:
            parked.append(act)
            producer.sink.parked(ACT_BYTES)

    def _allowance(self) -> Allowance:
        return self._throttle.allowance(self._publisher.topic.services.limits.rate_limits.timers.now_s())

    def _pass(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int:
        self.passing = True
        try:
            size = self._publisher.publish(producer, buf, sent, summary, extensions)
        finally:
            self.passing = False
        self._throttle.take(summary.message_count, summary.payload_bytes)
        return size

    def _go_on(self) -> None:
        """Publishes what is allowed now of what is parked. Never raises."""
        topic = self._publisher.topic
        with topic.services.loops.dispatching.guard(topic=topic.text):
            for _ in range(PIECES_A_TURN):
                if not self._parked:
                    break
                allowance = self._allowance()
                if not allowance:
                    return
                producer = next(iter(self._parked))
                parked = self._parked.pop(producer)
                self._publish_first(producer, parked, allowance)
                if parked and not producer.closed:
                    self._parked[producer] = parked
            else:
                asyncio.get_running_loop().call_soon(self._go_on)
            if not self._parked and not self._throttle.levels and self._publisher.limits is self:
                self._publisher.limits = None

    def _publish_first(self, producer: Producer, parked: deque[ParkedBlock | Act], allowance: Allowance) -> None:
        """Publishes some of what a producer has parked."""
        block = parked[0]
        if not isinstance(block, ParkedBlock):
            self._publisher.run_after_pending(block)
            parked.popleft()
            producer.sink.unparked(ACT_BYTES)
            return
        most = allowance.messages / (1 + len(self._parked))  # the other producers' turn comes too
        frames = block.first(math.ceil(most) if most < PIECE_MESSAGES_MAX else PIECE_MESSAGES_MAX)
        sent = frames[: _within(frames, hot.summarize(frames), allowance)]
        size = sent[-1].end - block.at
        appended = 0
        try:
            appended = self._pass(producer, block.data, sent, hot.summarize(sent))
        except StoreError:  # the topic recovers: it closes its producers, which send again
            pass
        if appended < size:
            producer.sink.append_completed(size - appended)
        if sent[-1].end == len(block.data):
            parked.popleft()
        else:
            block.taken_up_to(sent[-1].end)
        producer.sink.unparked(size)

    # --- what changes

    def follow(self, rate: PublishRate) -> PublishLimits | None:
        """The limits have changed. What is parked is published at once as far as they allow it now."""
        self._throttle.follow(self._levels(rate))
        if rate.unlimited and not self._parked:
            return None
        asyncio.get_running_loop().call_soon(self._go_on)
        return self

    def _levels(self, rate: PublishRate) -> tuple[LevelLimiter, ...]:
        timers = self._publisher.topic.services.limits.rate_limits.timers
        if rate.limit.unlimited:
            self._own = None
            return rate.levels
        if self._own is None:
            self._own = LevelLimiter(RateLevel.TOPIC, PUBLISH_RATE, rate.limit, timers.now_s())
        else:
            timers.change(self._own, rate.limit)
        return (self._own, *rate.levels)

    def drop(self, producer: Producer) -> None:
        """It is closed: its client sends again what it has parked. Idempotent."""
        for part in self._parked.pop(producer, ()):
            if isinstance(part, ParkedBlock):
                size = len(part.data) - part.at
                producer.sink.unparked(size)
                producer.sink.append_completed(size)
                if producer.fenced:
                    producer.sink.unpublished(producer, part.first(len(part.data)))
            else:
                producer.sink.unparked(ACT_BYTES)
                part(False)

    def close(self) -> None:
        for producer in list(self._parked):
            self.drop(producer)
        self._throttle.close()


def _within(sent: list[SendFrame], summary: BlockSummary, allowance: Allowance) -> int:
    """How many of `sent` are allowed: as long as there is something left, the next is."""
    messages, size_bytes = allowance
    if not allowance:
        return 0
    last = sent[-1]
    if summary.message_count - last.message_count < messages and summary.payload_bytes - _payload(last) < size_bytes:
        return len(sent)
    count = 0
    for frame in sent:
        if messages <= 0 or size_bytes <= 0:
            break
        messages -= frame.message_count
        size_bytes -= _payload(frame)
        count += 1
    return count


def _payload(frame: SendFrame) -> int:
    return frame.end - frame.payload_start
