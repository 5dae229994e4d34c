"""The interface of a loaded topic that the services of a broker use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from messaging.broker.core.maintenance.inactivity import IdleTimes
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.producers.producer_table import ProducerTable
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


class ConnectedProducers(Protocol):
    table: ProducerTable

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Producer]: ...


class KnownSubscriptions(Protocol):
    table: dict[str, Subscription]  # by key; never kept, because the first subscription replaces it

    def holds(self, subscription: Subscription) -> bool:
        """Whether it is a subscription of this topic still."""


class LoadedTopic(Protocol):
    name: TopicName
    text: str
    ledger: ManagedLedger
    idle: IdleTimes
    closed: MagnetarError | None  # the reason for closing, set when closing begins
    rates: TopicRates | None  # None while the topic is idle

    @property
    def producers(self) -> ConnectedProducers: ...

    @property
    def subscriptions(self) -> KnownSubscriptions: ...

    @property
    def totals(self) -> TopicCounters: ...

    async def recover(self) -> bool:
        """Called after the log refused a block. Returns False if the topic must be loaded again instead."""
