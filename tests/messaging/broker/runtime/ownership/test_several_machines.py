"""Brokers as on several machines: directories of their own, one database, mutual TLS between processes. What surrounds them finds
them, whichever is gone: web and workers, WebSockets, usage files.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import msgspec
import pulsar

from messaging import client as magnetar
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.finding import BrokerChoice, admin_rpc, choice_of
from messaging.adminrpc.methods import STATUS, USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.settings import Settings
from tests.support.brokers.fleet import shared_broker
from tests.support.brokers.running_broker import RunningBroker
from tests.support.process_certificates import ProcessCertificates
from tests.support.waiting import eventually
from workers.environment import Environment
from workers.usage_files import never_taken, take_usage_files

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]


def elsewhere(folder: Path, *brokers: RunningBroker) -> Settings:
    """Of a process on a machine without a broker."""
    urls = ",".join(broker.service.addresses.rpc_url for broker in brokers)
    one = brokers[0].service.settings
    secrets = folder / "elsewhere" / "secrets"
    if not secrets.exists():
        secrets.parent.mkdir()
        secrets.symlink_to(folder / "secrets")
    return msgspec.structs.replace(one, data_dir=str(folder / "elsewhere"), broker_rpc_url=urls)


def asked(settings: Settings, choice: BrokerChoice) -> str:
    with closing(admin_rpc(settings, "worker", choice)) as rpc:
        return rpc.call(STATUS, BrokerAsked()).broker_id


def published(urls: str, token: str, text: str) -> dict[str, list[str]]:
    """By the stock client, which is told both brokers: all that is in each topic after it has sent `text` to it."""
    client = pulsar.Client(urls, authentication=pulsar.AuthenticationToken(token), operation_timeout_seconds=30)
    try:
        stored: dict[str, list[str]] = {}
        for topic in TOPICS:
            client.create_producer(topic).send(text.encode())
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            stored[topic] = []
            while not stored[topic] or stored[topic][-1] != text:
                stored[topic].append(reader.read_next(20_000).data().decode())
        return stored
    finally:
        client.close()


async def over_websocket(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.ws_url, key=broker.token("owner")) as client:
        for topic in TOPICS:
            async with client.producer(topic) as producer, client.consumer(topic, "ws") as consumer:
                await producer.send(b"by WebSocket")
                assert (await consumer.receive(timeout_s=20)).payload == b"by WebSocket"


def flushed_and_taken(settings: Settings, choice: BrokerChoice) -> tuple[int, list[str]]:
    with closing(admin_rpc(settings, "worker", choice)) as rpc:
        rpc.call(USAGE_FLUSH, UsageFlush(task_id="t"))
        here = Environment(settings, rpc)
        return take_usage_files(here, settings.usage_lookback_days, _nothing), never_taken(here, ["machine-1", "machine-2"])


def _nothing() -> None:
    return None


async def test_clients_web_and_workers_find_brokers_of_other_machines_and_lose_nothing_with_one(
    tmp_path: Path, metadata_url: str
) -> None:
    certificates = ProcessCertificates(tmp_path).settings
    async with shared_broker(tmp_path, metadata_url, 2, **certificates) as second:
        async with shared_broker(tmp_path, metadata_url, 1, **certificates) as first:
            await eventually(lambda: second.service.owners.others("internal_url"))
            settings = elsewhere(tmp_path, first)
            choice = choice_of(settings, "worker")
            assert await asyncio.to_thread(asked, settings, choice) == "machine-1"
            assert [broker.broker_id for broker in choice.seen()] == ["machine-1", "machine-2"]
            urls = f"{first.service.addresses.broker_url},{second.service.addresses.broker_url.removeprefix('pulsar://')}"
            stored = ["a"]
            assert await asyncio.to_thread(published, urls, first.token("owner"), "a") == dict.fromkeys(TOPICS, stored)
            for broker in (first, second):
                await over_websocket(broker)
            taken, never = await asyncio.to_thread(flushed_and_taken, settings, choice)
            assert taken >= 2 and never == []
            raw = settings.data_path / "usage" / "raw"
            assert {path.name.partition("-")[0] for path in raw.glob("date=*/hour=*/*.parquet")}
        assert await asyncio.to_thread(asked, settings, choice) == "machine-2", "nobody named it"
        stored = ["a", "by WebSocket", "by WebSocket", "b"]
        assert await asyncio.to_thread(published, urls, second.token("owner"), "b") == dict.fromkeys(TOPICS, stored)
        await over_websocket(second)
