"""What waits at a rate limit when the right to publish it is revoked is never stored."""

from __future__ import annotations

from tests.support.clients.consuming import TOPIC
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

WAITING = 20
SLOW = {"publish_rate_messages": 1}


async def test_messages_that_wait_end_with_the_right(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", {"grants": {"writer@acme": ["produce"]}, "policies": SLOW}))
    client = await world.connected("writer")
    await client.producer(TOPIC)
    client.write(*(send_frame(number, b"one") for number in range(WAITING)))
    await client.expect("SEND_RECEIPT")
    topic = world.service.topics.loaded[TOPIC]
    await world.feed(("namespace", "acme/orders", {"grants": {}, "policies": SLOW}))
    entries = topic.ledger_list.entries
    assert 0 < entries < WAITING
    await world.feed(("namespace", "acme/orders", {"grants": {}, "policies": {}}))
    await client.quiet()
    assert topic.ledger_list.entries == entries
    assert world.service.memory_limiter.ingress.used_bytes == 0
