"""The control plane beside a broker: its calls go there, and the broker's questions for the feed come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from messaging.adminrpc.feed import FeedApply
from tenants import broker, feed
from tests.support.brokers.broker_line import BrokerLine
from tests.support.brokers.memory_broker import MemoryBroker


def feed_page(since: int, feed_id: str, after: str) -> FeedApply:
    return feed.since(since, feed_id=feed_id, after=after)


class Connected:
    """`line`: what the control plane calls. `broker`: what answers at its other end."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(feed_page)
        self.line = BrokerLine(self.broker)


@contextmanager
def connected() -> Iterator[Connected]:
    made = Connected()
    broker.use(made.line)
    try:
        yield made
    finally:
        broker.use(None)
        made.broker.stop()
