"""A topic of thousands of partitions, for a stock client: it asks for all of them at once."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.stock import Stock, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

PARTITIONS = 2500


def test_a_consumer_of_2500_partitions(standalone: Standalone, stock: Stock) -> None:
    """More than 2,000 pending requests cut the connection, so that subscribing never came to an end."""
    topic = "persistent://public/default/many-partitions"
    path = "/admin/v2/persistent/public/default/many-partitions/partitions"
    made = standalone.http("PUT", path, PARTITIONS, standalone.admin_token)
    assert made.status in (200, 201, 204), made.text
    client = stock.client(standalone.admin_token, operation_timeout_seconds=120)
    consumer = client.subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(f"{topic}-partition-{PARTITIONS - 1}")
    producer.send(b"in the last one")
    assert [message.data() for message in receive(consumer, 1)] == [b"in the last one"]
