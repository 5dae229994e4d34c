"""Limits of a tenant hold over all brokers of a fleet together."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.ceilings import CeilingsAsked
from messaging.adminrpc.methods import CEILINGS_USED
from messaging.broker.runtime.ownership.shared_limits import FORGOTTEN_S
from messaging.client import Client, connect
from messaging.errors import MagnetarError
from tests.support.brokers.fleet import running_fleet
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[list[RunningBroker]]:
    async with running_fleet(tmp_path / uuid.uuid4().hex, 2) as brokers:
        for broker in brokers:
            await broker.service.owners.look()  # type: ignore[attr-defined]
        yield brokers


async def limited(fleet: list[RunningBroker], **policies: Any) -> None:
    for broker in fleet:
        await broker.say(("tenant", "acme", {"admin_roles": [], "policies": policies}))


async def apart(fleet: list[RunningBroker], client: Client) -> list[str]:
    """A topic of each broker."""
    for topic in TOPICS:
        async with client.producer(topic):
            pass
    return [min(topic for topic in TOPICS if topic in broker.service.topics.loaded) for broker in fleet]


async def exchange(fleet: list[RunningBroker]) -> None:
    for broker in fleet:
        assert broker.service.fleet_limits is not None
        await broker.service.fleet_limits.tell(wait_s=30)


async def test_what_is_connected_counts_over_all_brokers(fleet: list[RunningBroker]) -> None:
    async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client, AsyncExitStack() as stack:
        first, second = await apart(fleet, client)
        await limited(fleet, max_producers_per_tenant=4)
        for topic in (first, second, first):
            await stack.enter_async_context(client.producer(topic))
            await exchange(fleet)
        for broker in fleet:
            used = (await broker.admin.methods[CEILINGS_USED.name](CeilingsAsked(tenant="acme"))).used  # type: ignore[attr-defined]
            assert used["max_producers_per_tenant"] == 3
        await stack.enter_async_context(client.producer(second))
        await exchange(fleet)
        with pytest.raises(MagnetarError, match="max_producers_per_tenant = 4"):
            async with client.producer(first):
                pass


async def test_a_broker_that_is_away_is_forgotten(fleet: list[RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    limits = fleet[0].service.fleet_limits
    assert limits is not None
    counts = fleet[0].service.topics.services.limits.producers
    async with connect(fleet[1].service.addresses.service_url, fleet[1].token("owner")) as client:
        _, second = await apart(fleet, client)
        async with client.producer(second):
            await exchange(fleet)
            assert counts.of("acme") == 1
            limits.now_s = lambda: time.monotonic() + FORGOTTEN_S + 1
            monkeypatch.setattr(limits, "hear", lambda told: None)
            await eventually(lambda: counts.of("acme") == 0)


async def test_a_rate_is_divided_by_what_the_brokers_want(fleet: list[RunningBroker]) -> None:
    async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
        topics = await apart(fleet, client)
        await limited(fleet, tenant_publish_rate_messages=50)
        published = [0, 0]

        async def publish(index: int, until_s: float) -> None:
            async with client.producer(topics[index], batching=False) as producer:
                while time.monotonic() < until_s:
                    await producer.send(b"x")
                    published[index] += 1

        begun_s = time.monotonic()
        await asyncio.gather(*(publish(index, begun_s + 8) for index in (0, 1)))
        passed_s = time.monotonic() - begun_s
        assert sum(published) <= 50 * (passed_s + 2), "what had accumulated included"
        assert min(published) > 0
        rates = [broker.service.topics.services.limits.rate_limits.publish for broker in fleet]
        parts = [limits.parts.get("tenant acme", 1.0) for limits in rates]
        assert sum(parts) == pytest.approx(1.0, abs=0.3)


async def test_what_is_stored_counts_over_all_brokers(fleet: list[RunningBroker]) -> None:
    """Exactly in sum, within 5 %: what is in ledgers that are written to, and what each appends from second to second."""
    size, bytes_max = 10_000, 1_000_000
    async with connect(fleet[0].service.addresses.service_url, fleet[0].token("owner")) as client:
        topics = await apart(fleet, client)
        async with client.producer(topics[1], batching=False) as producer:  # before there is a ceiling
            for _ in range(20):
                await producer.send(b"x" * size)
        await limited(fleet, max_stored_bytes_per_tenant=bytes_max)
        producers = [await client.create_producer(topic, batching=False, send_timeout_s=5) for topic in topics]
        stored = 20
        with pytest.raises(MagnetarError, match="max_stored_bytes_per_tenant"):
            while stored < 2 * bytes_max // size:
                await producers[stored % 2].send(b"x" * size)
                stored += 1
                if not stored % 5:
                    await exchange(fleet)
        assert 0.95 * bytes_max <= stored * size <= 1.05 * bytes_max
        for broker in fleet:
            used = (await broker.admin.methods[CEILINGS_USED.name](CeilingsAsked(tenant="acme"))).used  # type: ignore[attr-defined]
            assert used["max_stored_bytes_per_tenant"] == pytest.approx(stored * size, rel=0.05)
