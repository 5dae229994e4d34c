"""What Apache's own client is promised of readers and table views."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.stock import RECEIVE_MS, Stock, batched, published, read_all
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


# Not queue 1 without the start: the client drops that message and does not ask for another, with Pulsar too.
@pytest.mark.parametrize(("inclusive", "queue"), [(True, 1), (True, 1000), (False, 1000)])
def test_a_reader_from_an_id(stock: Stock, topic: str, inclusive: bool, queue: int) -> None:
    client = stock.client()
    ids = published(client, topic, range(6))
    reader = client.create_reader(topic, ids[2], receiver_queue_size=queue, start_message_id_inclusive=inclusive)
    assert read_all(reader) == list(range(2 if inclusive else 3, 6))
    published(client, topic, range(6, 8))
    assert read_all(reader) == [6, 7]


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_reader_from_within_a_batch(stock: Stock, topic: str, inclusive: bool) -> None:
    client = stock.client()
    ids = batched(client, topic, range(10))
    published(client, topic, range(10, 12))
    reader = client.create_reader(topic, ids[4], start_message_id_inclusive=inclusive)
    assert read_all(reader) == list(range(4 if inclusive else 5, 12))


def test_a_reader_from_the_end(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(3))
    reader = client.create_reader(topic, LATEST)
    assert not reader.has_message_available()
    published(client, topic, range(3, 5))
    assert read_all(reader) == [3, 4]
    last = client.create_reader(topic, LATEST, start_message_id_inclusive=True)
    assert read_all(last) == [4]


def test_a_reader_of_an_empty_topic(stock: Stock, topic: str) -> None:
    client = stock.client()
    reader = client.create_reader(topic, EARLIEST)
    assert not reader.has_message_available()
    published(client, topic, range(2))
    assert read_all(reader) == [0, 1]


def test_a_reader_of_partitions(stock: Stock, partitioned: str) -> None:
    client = stock.client()
    published(client, partitioned, range(30), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    reader = client.create_reader(partitioned, EARLIEST)
    assert sorted(read_all(reader)) == list(range(30))
    assert not reader.has_message_available()
    reader.seek(EARLIEST)
    assert sorted(read_all(reader)) == list(range(30))


def test_a_reader_goes_on_after_its_connection_was_lost(standalone: Standalone, stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(10))
    reader = client.create_reader(topic, EARLIEST)
    seen = [int(reader.read_next(RECEIVE_MS).data()) for _ in range(4)]
    path = f"/admin/v2/persistent/public/default/{topic.rpartition('/')[2]}/unload"
    assert standalone.http("PUT", path, None, standalone.admin_token).status == 204
    while len(seen) < 10:
        seen.append(int(reader.read_next(RECEIVE_MS).data()))
    assert seen == list(range(10))


def test_readers_do_not_share(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(5))
    first, other = (client.create_reader(topic, EARLIEST, reader_name="same") for _ in range(2))
    assert read_all(first) == read_all(other) == list(range(5))


def test_a_compacted_read_of_what_was_never_compacted_is_everything(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(5))
    assert read_all(client.create_reader(topic, EARLIEST, is_read_compacted=True)) == list(range(5))


def test_a_table_view_has_the_last_value_of_each_key(stock: Stock, topic: str) -> None:
    client = stock.client()
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=f"k{number % 4}")
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("k0", "k1", "k2", "k3")} == {"k0": b"16", "k1": b"17", "k2": b"18", "k3": b"19"}
    heard: dict[str, bytes] = {}
    view.for_each_and_listen(heard.__setitem__)
    producer.send(b"new", partition_key="k1")
    eventually_sync(lambda: heard.get("k1") == b"new")
    assert len(heard) == 4
    view.close()
