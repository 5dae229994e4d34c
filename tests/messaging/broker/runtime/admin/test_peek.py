"""Looking at the entries that a subscription would get, without getting them."""

from __future__ import annotations

import base64

import pytest

from messaging.adminrpc.subscriptions import SubscriptionPeek
from messaging.errors import NotFound
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


async def test_a_subscription_that_does_not_exist_yet_would_get_everything_and_is_not_created(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"a"), send_frame(1, b"b"))
    for _ in range(2):
        await client.expect("SEND_RECEIPT")
    peeked = await world.admin.subscriptions.peek(SubscriptionPeek(topic=TOPIC, subscription="absent", position=2))
    assert base64.b64decode(peeked.payload) == b"b"
    with pytest.raises(NotFound):
        await world.admin.subscriptions.peek(SubscriptionPeek(topic=TOPIC, subscription="absent", position=3))
    assert not (await world.service.topics.get(parse_topic(TOPIC), create=False)).subscriptions.table
