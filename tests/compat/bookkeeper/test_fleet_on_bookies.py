"""Two brokers whose messages are on the same bookies: each takes over what the other had, whether that was stopped or killed."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import psycopg
import pulsar
import pytest

from messaging.client import Client, connect
from tests.benchmarks.real_broker import RealBroker
from tests.compat.stock import Stock, receive
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster
from tests.support.brokers.fleet import shared_broker
from tests.support.brokers.running_broker import RunningBroker
from tests.support.waiting import eventually_sync

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]
TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]
KEPT = [f"persistent://public/default/kept-{number}" for number in range(8)]


def on_bookies(cluster: Cluster, store: str) -> dict[str, Any]:
    return {"ledger_url": f"bookkeeper://{cluster.hosts}/ledgers?store={store}", "message_bytes_max": 1 << 20}


def client_of(broker: RunningBroker) -> Client:
    return connect(broker.service.addresses.broker_url, broker.token("owner"))


async def publish(client: Client, text: str) -> None:
    for topic in TOPICS:
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


async def test_another_broker_goes_on_where_one_was_stopped(real_cluster: Cluster, tmp_path: Path, metadata_url: str) -> None:
    settings = on_bookies(real_cluster, "stopped")
    async with shared_broker(tmp_path, metadata_url, 1, **settings) as second:
        async with shared_broker(tmp_path, metadata_url, 2, **settings) as first, client_of(first) as client:
            for text in ("a", "b"):
                await publish(client, text)
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"a {topic}"]
        async with client_of(second) as client:
            await publish(client, "c")
            for topic in TOPICS:
                assert await read(client, topic, 2) == [f"b {topic}", f"c {topic}"], "what was acknowledged does not come again"


class Published:
    """Receipts of several producers, by topic."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {topic: [] for topic in KEPT}
        self.sending = True

    @property
    def count(self) -> int:
        return sum(map(len, self.numbers.values()))

    def publish(self, client: pulsar.Client, topic: str) -> None:
        """One message after the other, again if no receipt came, until it is told to end."""
        producer = client.create_producer(topic, send_timeout_millis=60_000)
        number = 0
        while self.sending:
            producer.send(b"%d" % number)
            self.numbers[topic].append(number)
            number += 1


def real_broker(cluster: Cluster, folder: Path, url: str, name: str) -> RealBroker:
    own = folder / name
    own.mkdir()
    if (folder / "secrets").exists():
        shutil.copytree(folder / "secrets", own / "secrets")
    broker = RealBroker(own, metadata_url=url, broker_id=name, **on_bookies(cluster, "fleet-killed"))
    if not (folder / "secrets").exists():
        shutil.copytree(own / "secrets", folder / "secrets")
    return broker


def bundles_of(broker_id: str, url: str) -> int:
    with psycopg.connect(url) as connection:
        sql = "select count(*) from magnetar_broker.bundle_owner where broker_id = %s and namespace = 'public/default'"
        row = connection.execute(sql, (broker_id,)).fetchone()
    return int(row[0]) if row is not None else 0


def test_a_stock_client_goes_on_when_one_of_two_brokers_is_killed(real_cluster: Cluster, tmp_path: Path, metadata_url: str) -> None:
    brokers = [real_broker(real_cluster, tmp_path, metadata_url, name) for name in ("one", "two")]
    addresses = [f"{host}:{port}" for host, port in (broker.address for broker in brokers)]
    stock = Stock("pulsar://" + ",".join(addresses), tmp_path / "client.log")
    client, published = stock.client(), Published()
    threads = [threading.Thread(target=published.publish, args=(client, topic)) for topic in KEPT]
    for thread in threads:
        thread.start()
    eventually_sync(lambda: all(len(numbers) >= 20 for numbers in published.numbers.values()), timeout_s=60)
    assert bundles_of("one", metadata_url) and bundles_of("two", metadata_url), "each serves some of the topics"
    brokers[0].kill()
    before = {topic: len(numbers) for topic, numbers in published.numbers.items()}
    eventually_sync(lambda: all(len(published.numbers[topic]) >= before[topic] + 20 for topic in KEPT), timeout_s=60)
    published.sending = False
    for thread in threads:
        thread.join()
    for topic, numbers in published.numbers.items():
        consumer = client.subscribe(topic, "reader", initial_position=pulsar.InitialPosition.Earliest)
        missing, found = set(numbers), list[int]()
        while missing:
            found.append(int(receive(consumer, 1)[0].data()))
            missing.discard(found[-1])
        assert sorted(set(found)) == numbers, "nothing is lost; what had no receipt may be there twice"
    stock.close()
    brokers[1].close()
