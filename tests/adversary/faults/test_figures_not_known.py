"""What the broker did not look at is told as not known, never as zero."""

from __future__ import annotations

import pytest

from messaging.adminrpc.subscriptions import SubscriptionCreate
from messaging.adminrpc.topics import LiveAsked, TopicCreate, TopicRef
from messaging.broker.runtime.admin import live
from tests.support.clients.connections import DirectConnection
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"


async def test_a_topic_that_is_not_loaded_has_no_backlog_of_zero(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace of more than 200 topics the console showed a backlog and subscriptions of 0 for what it had not looked at."""
    monkeypatch.setattr(live, "LIVE_LOAD_MAX", 0)
    await world.admin.topics.create(TopicCreate(topic=TOPIC))
    await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s", ledger_id=-1, entry_id=-1))
    client = DirectConnection(world)
    await client.open_producer(TOPIC)
    client.publish_message(b"x")
    client.connection_lost(None)
    await world.admin.topics.unload(TopicRef(topic=TOPIC))

    (row,) = (await world.admin.live.live(LiveAsked(namespace="acme/orders"))).topics
    assert not row.loaded and TOPIC not in world.service.topics.loaded
    assert (row.messages_in, row.messages_out, row.storage_bytes, row.backlog_entries, row.subscriptions) == (None,) * 5
    assert (row.rate_in, row.rate_out, row.producers, row.consumers) == (0, 0, 0, 0)

    monkeypatch.setattr(live, "LIVE_LOAD_MAX", 1)
    (row,) = (await world.admin.live.live(LiveAsked(namespace="acme/orders"))).topics
    assert (row.backlog_entries, row.subscriptions) == (1, 1)
    assert row.storage_bytes
