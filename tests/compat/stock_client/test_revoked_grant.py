"""A permission is withdrawn while a stock client is connected: it gets errors, and nothing more is published or delivered."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

TOPIC = "persistent://revoking/orders/t"
NAMESPACE = "/api/v1/tenants/revoking/namespaces/orders"


def test_a_revoked_grant_ends_a_producer_and_a_consumer(standalone: Standalone, stock: Stock) -> None:
    admin = standalone.admin_token
    standalone.http("POST", "/api/v1/tenants", {"name": "revoking"}, admin)
    standalone.http("POST", "/api/v1/tenants/revoking/namespaces", {"name": "orders"}, admin)
    token = standalone.http("POST", "/api/v1/tenants/revoking/keys", {"name": "app"}, admin).json()["token"]
    grant = f"{NAMESPACE}/permissions/app@revoking"
    standalone.http("PUT", grant, {"actions": ["produce", "consume"]}, admin)
    client = stock.client(token, operation_timeout_seconds=5)
    producer = client.create_producer(TOPIC, send_timeout_millis=3000)
    consumer = client.subscribe(TOPIC, "s")
    producer.send(b"before")
    assert [message.data() for message in receive(consumer, 1)] == [b"before"]

    assert standalone.http("DELETE", grant, None, admin).status == 204
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"after")
    stock.client(admin).create_producer(TOPIC).send(b"not for them")
    assert nothing_more(consumer)
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(TOPIC)
    with pytest.raises(pulsar.AuthorizationError):
        client.subscribe(TOPIC, "s")

    standalone.http("PUT", grant, {"actions": ["produce", "consume"]}, admin)
    fresh = stock.client(token).subscribe(TOPIC, "fresh", initial_position=pulsar.InitialPosition.Earliest)
    assert [message.data() for message in receive(fresh, 2)] == [b"before", b"not for them"]
    assert nothing_more(fresh)
    log = standalone.http("GET", "/api/v1/tenants/revoking/audit?action=permission.revoke", None, admin).json()["items"]
    assert [(item["role"], item["address"]) for item in log] == [("admin", "127.0.0.1")]
