"""The SDK against the real broker, in this process: one round trip through log, subscription, connection and key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from messaging import client as magnetar
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import STATUS, SUBSCRIPTIONS_LIST, SUBSCRIPTIONS_SKIP
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.adminrpc.topics import TopicRef
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.main import start
from messaging.client import errors
from messaging.identity import create_secrets, issue_token, service_token
from messaging.settings import Settings

TOPIC = "persistent://acme/orders/new"
STATE = {"policies": {}, "grants": {"app@acme": ["produce", "consume"]}, "topic_grants": {}, "subscription_roles": {}}
CHANGES = [
    FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": [], "allowed_clusters": ["standalone"]}),
    FeedChange(version=2, kind="namespace", key="acme/orders", state=STATE),
    FeedChange(version=3, kind="key", key="k1", state={"role": "app@acme", "tenant": "acme", "revoked": False, "expires_ms": 0}),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    return settings


@pytest.fixture
async def broker(settings: Settings) -> AsyncIterator[Broker]:
    async with AsyncExitStack() as stack:
        service = await start(settings, stack)
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=3, full=True, changes=CHANGES))
        yield service
        await service.stop()


async def test_a_round_trip_and_the_key_that_is_revoked(settings: Settings, broker: Broker) -> None:
    key = issue_token(settings, "app@acme", "k1", int(time.time()))
    async with magnetar.connect(broker.addresses.broker_url, key=key) as client:
        consumer = await client.consumer(TOPIC, "billing")
        producer = await client.producer(TOPIC)
        ids = [await producer.send(payload, key="k", properties={"n": "1"}) for payload in (b"one", b"two")]
        for message_id, payload in zip(ids, (b"one", b"two"), strict=True):
            message = await consumer.receive(timeout_s=10)
            assert (message.id, message.payload, message.key, message.properties) == (message_id, payload, "k", {"n": "1"})
            await consumer.ack(message)
        await consumer.close()
        async with client.consumer(TOPIC, "billing") as again:
            third = await producer.send(b"three")
            assert (await again.receive(timeout_s=10)).id == third, "what was acknowledged does not come again"
            revoked = FeedChange(version=4, kind="key", key="k1", state={**(CHANGES[2].state or {}), "revoked": True})
            await AdminHandlers(broker).feed.apply(FeedApply(from_version=3, to_version=4, changes=[revoked]))
            with pytest.raises(errors.Closed) as caught:
                await again.receive(timeout_s=10)
            assert isinstance(caught.value.__cause__, errors.AuthenticationFailed)
    async with magnetar.connect(broker.addresses.broker_url, key=key) as client:
        with pytest.raises(errors.AuthenticationFailed):
            await client.producer(TOPIC)


async def test_strangers_are_refused(settings: Settings, broker: Broker) -> None:
    stranger = issue_token(settings, "app@other", "k9", int(time.time()))
    for key in (None, stranger, "forged"):
        async with magnetar.connect(broker.addresses.broker_url, key=key) as client:
            with pytest.raises((errors.NotAuthorized, errors.AuthenticationFailed)):
                await client.producer(TOPIC)
            with pytest.raises((errors.NotAuthorized, errors.AuthenticationFailed)):
                await client.consumer(TOPIC, "s")


async def test_the_admin_rpc_by_its_client(settings: Settings, broker: Broker) -> None:
    key = issue_token(settings, "app@acme", "k1", int(time.time()))
    async with magnetar.connect(broker.addresses.broker_url, key=key) as client, client.consumer(TOPIC, "billing"):

        def look() -> None:
            url = f"http://127.0.0.1:{broker.addresses.rpc_url.rpartition(':')[2]}"
            with closing(AdminRpc(lambda: url, lambda: service_token(settings, "web"))) as rpc:
                assert rpc.call(STATUS, BrokerAsked()).ready
                assert rpc.call(SUBSCRIPTIONS_LIST, TopicRef(topic=TOPIC)).subscriptions == ["billing"]
                with pytest.raises(errors.SubscriptionNotFound):
                    rpc.call(SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic=TOPIC, subscription="missing"))

        await asyncio.to_thread(look)
