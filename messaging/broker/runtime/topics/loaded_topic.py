"""The interface of a loaded topic that the rest of the broker uses."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from messaging.broker.core.inactivity import IdleTimes
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic_rates import TopicRates
from messaging.errors import MagnetarError
from messaging.protocol.names import TopicName
from messaging.storage.managed.ledger import ManagedLedger


class TopicCounters(NamedTuple):
    """Messages and bytes that went through a topic since it was loaded."""

    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int


class LoadedTopic(Protocol):
    __slots__ = ()

    name: TopicName
    text: str
    tenant_uid: str
    ledger: ManagedLedger
    subscriptions: dict[str, Subscription]
    idle: IdleTimes
    producers: Any  # a `TopicProducers`, which this module cannot know
    closed: MagnetarError | None  # the reason for closing, set when closing begins

    @property
    def rates(self) -> TopicRates | None:
        """None while the topic is idle"""

    @rates.setter
    def rates(self, rates: TopicRates | None) -> None: ...

    @property
    def totals(self) -> TopicCounters: ...

    async def recover(self) -> bool:
        """Called after the log refused a block. Returns False if the topic must be loaded again instead."""
