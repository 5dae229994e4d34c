"""Several brokers on one machine: each topic is served by one of them, and clients find it whichever they ask."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controlplane import log_tools
from messaging.adminrpc.compaction import CompactionsDue
from messaging.adminrpc.methods import COMPACTION_DUE, NAMESPACES_LIVE
from messaging.adminrpc.topics import LiveAsked
from messaging.client import Client, connect
from messaging.errors import NotReady
from messaging.protocol.names import parse_topic
from messaging.settings import ConfigError, Settings
from tests.support.brokers.fleet import fleet_broker, running_fleet
from tests.support.brokers.running_broker import RunningBroker, running_broker

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]


def served(broker: RunningBroker) -> set[str]:
    return {text for text in broker.service.topics.loaded if "://acme/" in text}


def client_of(broker: RunningBroker, *, own: bool = False) -> Client:
    addresses = broker.service.addresses
    return connect(addresses.broker_url if own else addresses.service_url, broker.token("owner"))


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


async def test_topics_are_divided_and_found_whichever_broker_is_asked(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 3) as fleet:
        for number, broker in enumerate(fleet):
            async with client_of(broker, own=True) as client:
                await publish(client, TOPICS, str(number))
        serving = Counter(text for broker in fleet for text in served(broker))
        assert serving == Counter(TOPICS), "one broker each"
        assert sum(bool(served(broker)) for broker in fleet) > 1
        async with client_of(fleet[0]) as client:
            for topic in TOPICS:
                assert await read(client, topic, 3) == [f"{number} {topic}" for number in range(3)]


async def test_a_topic_of_another_broker_is_refused_so_that_clients_look_it_up(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[0]) as client:
            await publish(client, TOPICS, "x")
        first, second = fleet
        elsewhere = next(iter(served(second)))
        with pytest.raises(NotReady, match=rf"another broker, at {second.service.addresses.broker_url}: look it up again"):
            await first.service.topics.get(parse_topic(elsewhere), create=True)
        with pytest.raises(NotReady, match="another broker"):
            await first.service.topics.delete(parse_topic(elsewhere), force=True)
        with pytest.raises(NotReady, match="another broker"):
            await first.service.topics.create(parse_topic(elsewhere), {})


async def test_what_was_stored_stays_with_its_log_over_restarts(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[0]) as client:
            await publish(client, TOPICS, "before")
        before = [served(broker) for broker in fleet]
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[1]) as client:
            for topic in TOPICS:
                assert await read(client, topic, 1) == [f"before {topic}"]
        assert [served(broker) for broker in fleet] == before


async def test_what_one_broker_stored_is_still_its_own_when_others_come(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as alone, client_of(alone) as client:
        await publish(client, TOPICS[:3], "alone")
        stored = served(alone)
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[1], own=True) as client:
            for topic in TOPICS[:3]:
                assert await read(client, topic, 1) == [f"alone {topic}"]
        assert stored <= served(fleet[0])


async def test_a_broker_whose_log_is_not_there_is_named_until_it_is_back(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[0]) as client:
            await publish(client, TOPICS, "x")
        of_second = sorted(served(fleet[1]))
    async with fleet_broker(tmp_path, 1, 2) as first:
        with pytest.raises(NotReady, match=r"broker broker-2, which has the log of .*, is not running"):
            await first.service.topics.get(parse_topic(of_second[0]), create=True)
        methods = first.admin.methods
        live = await methods[NAMESPACES_LIVE.name](LiveAsked(namespace="acme/orders"))
        assert {row.topic for row in live.topics if not row.loaded} == set(of_second)  # type: ignore[attr-defined]
        assert (await methods[COMPACTION_DUE.name](CompactionsDue(after="", limit=100))).next_after == ""  # type: ignore[attr-defined]
        async with fleet_broker(tmp_path, 2, 2), client_of(first, own=True) as client:
            assert await read(client, of_second[0], 1) == [f"x {of_second[0]}"]


async def test_a_broker_whose_log_is_lost_says_where_it_was_and_how_to_go_on_without_it(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet:
        async with client_of(fleet[0]) as client:
            await publish(client, TOPICS, "lost")
        lost, settings = min(served(fleet[1])), fleet[1].service.settings
    log, metadata = settings.data_path / "broker-2" / "log", settings.data_path / "broker" / "meta.sqlite3"
    shutil.rmtree(log)
    wrong = f"{metadata} does not belong to this log: .*that is {log}.*move the logs of all.*`magnetar log repair --broker 2 --acc"
    with pytest.raises(ConfigError, match=wrong):
        async with fleet_broker(tmp_path, 2, 2):
            pass
    assert log_tools.run(settings, "repair", 2, accept_metadata=True) == 0
    async with running_fleet(tmp_path, 2) as fleet, client_of(fleet[0]) as client:
        await publish(client, [lost], "new")
        assert await read(client, lost, 1) == [f"new {lost}"]


async def test_fewer_brokers_than_logs_are_refused(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, 2) as fleet, client_of(fleet[0]) as client:
        await publish(client, TOPICS, "x")
    with pytest.raises(ConfigError, match=r"topics in the logs of broker-2: .*--brokers 2"):
        async with running_broker(tmp_path):
            pass


async def test_a_second_broker_does_not_start_before_the_first_has_claimed_what_it_stored(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as alone:
        first = alone.service.settings
    with pytest.raises(ConfigError, match=r"the first broker"):
        async with running_broker(tmp_path, brokers=2, broker_number=2, broker_id="broker-2"):
            pass
    assert not first.broker_path.with_name("broker-2").joinpath("run").exists()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"broker_number": 2}, r"broker_number = 2 is more than brokers = 1"),
        ({"brokers": 2, "ledger_url": "postgresql://localhost/messages"}, "ledger_url"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        Settings(**settings)
