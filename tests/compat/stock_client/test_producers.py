"""What producers of the stock Python client may ask for: exclusive access to a topic."""

from __future__ import annotations

import threading
from typing import Any

import pulsar
import pytest

from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

MODES = pulsar.ProducerAccessMode


def test_an_exclusive_producer_is_alone(stock: Stock, topic: str) -> None:
    client = stock.client()
    owner = client.create_producer(topic, access_mode=MODES.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=MODES.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    owner.send(b"mine")
    owner.close()
    client.create_producer(topic).send(b"everybody's")


def test_a_fencing_producer_takes_the_topic_over(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "all")
    old = client.create_producer(topic, access_mode=MODES.Exclusive, batching_enabled=False)
    old.send(b"old")
    new = stock.client().create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    with pytest.raises(pulsar.ProducerFenced):
        old.send(b"too late")
    new.send(b"new")
    assert [message.data() for message in receive(consumer, 2)] == [b"old", b"new"]
    assert nothing_more(consumer)


def test_a_waiting_producer_gets_the_topic_when_its_owner_leaves(standalone: Standalone, stock: Stock, topic: str) -> None:
    path = f"/admin/v2/{topic.replace('://', '/')}/stats"
    owner = stock.client().create_producer(topic, access_mode=MODES.Exclusive)
    opened: list[pulsar.Producer] = []
    waiting = stock.client(operation_timeout_seconds=3)  # it waits for longer than that
    thread = threading.Thread(target=lambda: opened.append(waiting.create_producer(topic, access_mode=MODES.WaitForExclusive)))
    thread.start()
    eventually_sync(lambda: standalone.http("GET", path, token=standalone.admin_token).json()["waitingPublishers"] == 1)
    owner.send(b"first")
    assert not opened
    owner.close()
    thread.join(60)
    opened[0].send(b"second")
    stats = standalone.http("GET", path, token=standalone.admin_token).json()
    assert [publisher["accessMode"] for publisher in stats["publishers"]] == ["WaitForExclusive"] and stats["topicEpoch"] == 1


@pytest.fixture(scope="module")
def deduplicating(standalone: Standalone) -> str:
    """A namespace with deduplication."""
    token = standalone.admin_token
    assert standalone.http("PUT", "/admin/v2/namespaces/public/exact", {}, token).status == 204
    assert standalone.http("POST", "/admin/v2/namespaces/public/exact/deduplication", True, token).status == 204
    return "persistent://public/exact"


def test_a_message_that_is_sent_again_is_stored_once(standalone: Standalone, stock: Stock, deduplicating: str) -> None:
    """Plain, in batches and in chunks."""
    client = stock.client(standalone.admin_token)
    chunked = bytes(range(256)) * (48 << 10)  # 12 MiB: three chunks
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "batched": {"batching_enabled": True, "batching_max_publish_delay_ms": 20},
        "chunked": {"chunking_enabled": True},
    }
    for kind, options in kinds.items():
        topic = f"{deduplicating}/{kind}"
        payloads = [b"%d" % number for number in range(10)] if kind != "chunked" else [b"small", chunked, b"last"]
        consumer = client.subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)
        for _ in range(2):
            producer = client.create_producer(topic, producer_name="ingest", **options)
            for number, payload in enumerate(payloads, 1):  # for 0 this client takes a number of its own
                producer.send_async(payload, None, sequence_id=number)
            producer.flush()
            producer.close()
        assert [message.data() for message in receive(consumer, len(payloads))] == payloads, kind
        assert nothing_more(consumer)
        consumer.close()


def test_epochs_and_sequence_ids_outlive_a_kill(standalone: Standalone, stock: Stock, topic: str, deduplicating: str) -> None:
    old = stock.client().create_producer(topic, access_mode=MODES.Exclusive)
    new = stock.client().create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    again = f"{deduplicating}/killed"
    client = stock.client(standalone.admin_token)
    consumer = client.subscribe(again, "all", initial_position=pulsar.InitialPosition.Earliest)
    first = client.create_producer(again, producer_name="ingest")
    for number in (1, 2, 3):
        first.send(b"%d" % number, sequence_id=number)
    first.close()
    standalone.kill_child("broker")
    new.send(b"mine")
    with pytest.raises(pulsar.ProducerFenced):
        old.send(b"too late")
    path = f"/admin/v2/{topic.replace('://', '/')}/stats"
    assert standalone.http("GET", path, token=standalone.admin_token).json()["topicEpoch"] == 1
    second = client.create_producer(again, producer_name="ingest")
    assert second.last_sequence_id() == 3
    for number in (2, 3, 4):
        second.send(b"%d" % number, sequence_id=number)
    assert [message.data() for message in receive(consumer, 4)] == [b"1", b"2", b"3", b"4"]
    assert nothing_more(consumer)
