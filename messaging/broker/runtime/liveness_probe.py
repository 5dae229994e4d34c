"""Before a producer name or an Exclusive subscription is refused, its holder is sent a PING: a client that disappeared holds
nothing.

The rules in core say who holds it; the requesting client waits until the holder responds or is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol, runtime_checkable

from messaging.broker.core.producers.access_modes import AccessMode
from messaging.broker.core.producers.producer_table import ProducerTable
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType

ASKED_MAX = 16  # at a time; if there are more, not all of them have disappeared


@runtime_checkable
class Probed(Protocol):
    """A sink whose peer can be probed."""

    def answers(self) -> Awaitable[None] | None:
        """Completes when the peer has responded or was disconnected; None: there is no need to probe."""


async def probe_producers(producers: ProducerTable, name: str, access: AccessMode = AccessMode.SHARED) -> None:
    """Call it before a producer with this name and access mode is attached. One that may wait for the topic does not wait for a
    response."""
    sinks = [rival.sink for rival in producers.rivals(name, access)[:ASKED_MAX]]
    if access is not AccessMode.WAIT_FOR_EXCLUSIVE:
        await _ask(sinks)
        return
    for sink in sinks:
        if isinstance(sink, Probed):
            sink.answers()


async def probe_consumers(subscription: Subscription, kind: SubscriptionType) -> None:
    """Call it before a consumer of this subscription type is attached. A standby does not wait for the active consumer."""
    await _ask(consumer.sink for consumer in subscription.blocking_consumers(kind)[:ASKED_MAX])
    if kind is SubscriptionType.FAILOVER and subscription.active is not None and isinstance(subscription.active.sink, Probed):
        subscription.active.sink.answers()


async def _ask(sinks: Iterable[object]) -> None:
    waits = [answer for sink in sinks if isinstance(sink, Probed) and (answer := sink.answers()) is not None]
    if waits:
        await asyncio.gather(*waits)
