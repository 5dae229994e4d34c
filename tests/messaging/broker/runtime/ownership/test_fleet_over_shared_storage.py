"""Several brokers that all store in one database: any of them serves any topic, and takes it over from one that is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.client import Client, connect
from tests.support.brokers.fleet import shared_broker, shared_fleet
from tests.support.brokers.running_broker import RunningBroker

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]


def served(broker: RunningBroker) -> set[str]:
    return {text for text in broker.service.topics.loaded if "://acme/" in text}


def client_of(broker: RunningBroker) -> Client:
    return connect(broker.service.addresses.broker_url, broker.token("owner"))


async def publish(client: Client, topics: list[str], text: str) -> None:
    for topic in topics:
        async with client.producer(topic) as producer:
            await producer.send(f"{text} {topic}".encode())


async def read(client: Client, topic: str, count: int) -> list[str]:
    async with client.consumer(topic, "reading", initial="earliest", ack_receipts=True) as consumer:
        received = []
        for _ in range(count):
            message = await consumer.receive()
            received.append(message.payload.decode())
            await consumer.ack(message)
    return received


async def test_topics_are_divided_and_found_whichever_broker_is_asked(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        for number, broker in enumerate(fleet):
            async with client_of(broker) as client:
                await publish(client, TOPICS, str(number))
        assert all(served(broker) for broker in fleet)
        assert not served(fleet[0]) & served(fleet[1])
        async with client_of(fleet[0]) as client:
            for topic in TOPICS:
                assert await read(client, topic, 2) == [f"{number} {topic}" for number in range(2)]


async def test_another_broker_goes_on_where_one_was_stopped(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as second:
        async with shared_broker(tmp_path, metadata_url, 2) as first, client_of(first) as client:
            await publish(client, TOPICS, "a")
            await publish(client, TOPICS, "b")
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
        async with client_of(second) as client:
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"b {topic}"], "what was acknowledged does not come again"


async def test_a_broker_that_was_taken_for_gone_acknowledges_nothing_more(tmp_path: Path, metadata_url: str) -> None:
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        first, second = fleet
        async with client_of(first) as client:
            await publish(client, TOPICS, "a")
            await publish(client, TOPICS, "b")
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
        gone, taker = first.service.owners, second.service.owners
        assert isinstance(gone, FleetMember) and isinstance(taker, FleetMember)
        await taker.end_session("machine-1", gone.session, gone=True)
        async with client_of(second) as client:
            for each in TOPICS:
                await publish(client, [each], "c")
                assert await read(client, each, 2) == [f"b {each}", f"c {each}"]
        assert served(second) == set(TOPICS)
        stored = asyncio.get_running_loop().create_future()
        first.service.cursors.append(1, b"\x02" + bytes(16), stored.set_result)
        assert "does not own" in str(await stored)
        await asyncio.wait_for(gone.lost.wait(), 20)
