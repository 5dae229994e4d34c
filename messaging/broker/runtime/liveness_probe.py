"""Whoever holds what somebody else asks for is asked for a sign of life first: a peer that is gone without a word holds nothing.

The rules of core say who is in the way; the one who asks waits until they answered, or were ended for not answering. Their
connections are asked once each, however many wait for the answer. As Pulsar does it (`connectionLivenessCheckTimeoutMillis`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol, runtime_checkable

from messaging.broker.core.producers import ProducerTable
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType

ASKED_MAX = 16  # at a time: where more are in the way, not all of them are gone


@runtime_checkable
class Probed(Protocol):
    """A sink whose peer can be asked."""

    def answers(self) -> Awaitable[None] | None:
        """Returns what ends when the peer gave a sign of life, or was ended for giving none; None: there is no need to ask."""


async def probe_producer(producers: ProducerTable, name: str) -> None:
    """Before a producer of this name is attached."""
    held = producers.get(name)
    if held is not None:
        await _ask([held.sink])


async def probe_consumers(subscription: Subscription, kind: SubscriptionType) -> None:
    """Before a consumer of this kind is attached. A standby does not wait for what the active one says."""
    await _ask(one.sink for one in subscription.rivals(kind)[:ASKED_MAX])
    if kind is SubscriptionType.FAILOVER and subscription.active is not None and isinstance(subscription.active.sink, Probed):
        subscription.active.sink.answers()


async def _ask(sinks: Iterable[object]) -> None:
    waits = [answer for sink in sinks if isinstance(sink, Probed) and (answer := sink.answers()) is not None]
    if waits:
        await asyncio.gather(*waits)
