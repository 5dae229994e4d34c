"""The producer's benchmark: its clients, its proxy, and what is said of what they measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messaging.adminrpc.methods import TOPICS_STATS
from messaging.adminrpc.topics import StatsAsked
from tests.benchmarks import processes
from tests.benchmarks.producing import producer
from tests.benchmarks.producing.client_process import Done, Order, payload
from tests.benchmarks.producing.producer import Bench
from tests.benchmarks.real_broker import RealBroker


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    broker = RealBroker(tmp_path_factory.mktemp("data"))
    yield Bench(broker, 0.3, lambda text: None)
    broker.close()
    processes.end_all()


def test_payloads_have_their_size_and_differ() -> None:
    assert {len(payload(number, 200)) for number in (0, 7, 1999)} == {200} and payload(1, 200) != payload(2, 200)


def test_the_settings_are_those_that_are_advised() -> None:
    assert producer.tuned()["compression"] == "zstd" and producer.tuned()["batch_delay_ms"] == producer.LATENCY_MS


def test_what_a_producer_costs_is_measured(bench: Bench) -> None:
    cost = bench.cost("ours", dict(producer.DEFAULT), 500)
    assert cost.done.messages > 50 and cost.done.resident_bytes_max > 10 << 20
    assert 0 < cost.stored_bytes < 200 and cost.client_us > 0


def test_what_goes_to_one_partition_is_held_and_the_rest_passes(bench: Bench) -> None:
    topic = bench.topic()
    with bench.proxy("-partition-3") as url:
        bench.run(Order("ours", url, topic, 0.3, rate=400, options={"batching": False}))
    partitions = [StatsAsked(topic=f"{topic}-partition-{index}") for index in range(producer.PARTITIONS)]
    stored = [bench.broker.rpc.call(TOPICS_STATS, each).stats["msgInCounter"] for each in partitions]
    assert stored[3] == 0 and all(count for index, count in enumerate(stored) if index != 3)


def test_a_consumer_receives_what_is_there(bench: Bench) -> None:
    topic = bench.topic(partitions=0)
    stored = bench.run(Order("ours", bench.url, topic, 0.3, rate=500)).messages
    done = bench.run(Order("ours", bench.url, topic, 0, consume=min(50, stored)))
    assert done.messages == min(50, stored) - 1 and isinstance(done, Done)
