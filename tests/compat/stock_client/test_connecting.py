"""The stock Python client against a whole platform: who may connect, what arrives, what survives a `kill -9` of the broker."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.compat.stock import Stock, nothing_more, receive
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

COMPRESSIONS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def tenant_key(standalone: Standalone) -> str:
    """A tenant of its own with a namespace, and a key that may use it."""
    token = standalone.admin_token
    assert standalone.http("POST", "/api/v1/tenants", {"name": "acme"}, token).status == 201
    assert standalone.http("POST", "/api/v1/tenants/acme/namespaces", {"name": "orders"}, token).status == 201
    made = standalone.http("POST", "/api/v1/tenants/acme/keys", {"name": "app"}, token)
    assert made.status == 201, made.text
    granted = standalone.http(
        "PUT", "/api/v1/tenants/acme/namespaces/orders/permissions/app@acme", {"actions": ["produce", "consume"]}, token
    )
    assert granted.status == 200, granted.text
    key: str = made.json()["token"]
    return key


# --- who may come in ---------------------------------------------------------------------------------------------------------


def test_anonymously_on_public_default(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "first")
    client.create_producer(topic).send(b"hello")
    assert [message.data() for message in receive(consumer, 1)] == [b"hello"]


def test_with_the_superuser_token(standalone: Standalone, stock: Stock) -> None:
    client = stock.client(standalone.admin_token)
    consumer = client.subscribe("persistent://public/default/by-superuser", "first")
    client.create_producer("persistent://public/default/by-superuser").send(b"hello")
    assert [message.data() for message in receive(consumer, 1)] == [b"hello"]


def test_with_a_tenants_key(stock: Stock, tenant_key: str) -> None:
    client = stock.client(tenant_key)
    consumer = client.subscribe("persistent://acme/orders/new", "billing")
    client.create_producer("persistent://acme/orders/new").send(b"order 1")
    assert [message.data() for message in receive(consumer, 1)] == [b"order 1"]


def test_a_tenants_namespace_is_closed_to_the_roles_of_others(stock: Stock, tenant_key: str) -> None:
    with pytest.raises(pulsar.AuthorizationError):
        stock.client().create_producer("persistent://acme/orders/new")


def test_a_tenants_key_opens_nothing_else(standalone: Standalone, stock: Stock, tenant_key: str) -> None:
    token = standalone.admin_token
    assert standalone.http("POST", "/api/v1/tenants", {"name": "rival"}, token).status == 201
    assert standalone.http("POST", "/api/v1/tenants/rival/namespaces", {"name": "plans"}, token).status == 201
    with pytest.raises(pulsar.AuthorizationError):
        stock.client(tenant_key).subscribe("persistent://rival/plans/secret", "spy")
    for foreign in ("persistent://acme/private/x", "persistent://nobody/at-all/x"):
        with pytest.raises(pulsar.PulsarException):
            stock.client(tenant_key).create_producer(foreign)


@pytest.mark.parametrize("token", ["nonsense", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."])
def test_a_wrong_token_is_refused(stock: Stock, topic: str, token: str) -> None:
    """This client tries again until its time is up, whatever a broker says to its CONNECT; others say "authentication failed"."""
    with pytest.raises((pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)):
        stock.client(token, operation_timeout_seconds=2).create_producer(topic)


def test_a_revoked_key_opens_nothing(standalone: Standalone, stock: Stock, tenant_key: str) -> None:
    token = standalone.admin_token
    made = standalone.http("POST", "/api/v1/tenants/acme/keys", {"name": "leaked"}, token).json()
    grant = {"actions": ["produce"]}
    standalone.http("PUT", "/api/v1/tenants/acme/namespaces/orders/permissions/leaked@acme", grant, token)
    client = stock.client(made["token"], operation_timeout_seconds=5)
    producer = client.create_producer("persistent://acme/orders/new", send_timeout_millis=3000)
    producer.send(b"before")
    assert standalone.http("DELETE", f"/api/v1/tenants/acme/keys/{made['id']}", token=token).status == 200
    with pytest.raises(pulsar.PulsarException):  # its connection was closed, and it cannot come back
        for _ in range(20):
            producer.send(b"after")
    with pytest.raises(pulsar.PulsarException):
        stock.client(made["token"], operation_timeout_seconds=5).create_producer("persistent://acme/orders/new")


# --- what arrives ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [False, True], ids=["plain", "batched"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_everything_arrives_as_it_was_sent(stock: Stock, topic: str, compression: str, batched: bool) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "all")
    producer = client.create_producer(
        topic,
        compression_type=getattr(pulsar.CompressionType, compression),
        batching_enabled=batched,
        batching_max_publish_delay_ms=50,
    )
    before_ms = int(time.time() * 1000)
    # The client cannot open an empty zlib message of its own ("Failed to decompress zlib buffer"), whatever the broker.
    empty = [] if compression == "ZLib" and not batched else [b""]
    payloads = [*empty, b"x", *(f"message {number} ".encode() * number for number in range(1, 20)), bytes(range(256)) * 400]
    sent: list[tuple[object, object]] = []
    for number, payload in enumerate(payloads):
        producer.send_async(
            payload,
            lambda result, identifier: sent.append((result, identifier)),
            properties={"number": str(number), "sprache": "Grüße"},
            partition_key=f"key-{number % 3}",
            event_timestamp=1_700_000_000_000 + number,
        )
    producer.flush()
    got = receive(consumer, len(payloads))
    assert [result for result, _ in sent] == [pulsar.Result.Ok] * len(payloads)
    assert [message.data() for message in got] == payloads
    for number, message in enumerate(got):
        assert message.properties() == {"number": str(number), "sprache": "Grüße"}
        assert message.partition_key() == f"key-{number % 3}"
        assert message.event_timestamp() == 1_700_000_000_000 + number
        assert before_ms <= message.publish_timestamp() <= time.time() * 1000
        assert message.topic_name() == topic and message.redelivery_count() == 0
    assert nothing_more(consumer)


def test_a_message_too_large_is_refused_by_name(stock: Stock, topic: str) -> None:
    producer = stock.client().create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5_242_881))
    producer.send(b"the producer goes on")


def test_a_topic_name_that_cannot_be_is_refused(stock: Stock) -> None:
    for name in ("persistent://public/default", "persistent://public//x", "file://a/b/c"):
        with pytest.raises((pulsar.PulsarException, ValueError)):
            stock.client(operation_timeout_seconds=5).create_producer(name)


def test_a_reader_sees_what_is_there(stock: Stock, topic: str) -> None:
    client = stock.client()
    producer = client.create_producer(topic)
    identifiers = [producer.send(str(number).encode()) for number in range(4)]
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    seen = []
    while reader.has_message_available():
        seen.append(reader.read_next(5000).data())
    assert seen == [b"0", b"1", b"2", b"3"]
    assert len({str(identifier) for identifier in identifiers}) == 4


def test_partitions(standalone: Standalone, stock: Stock) -> None:
    token = standalone.admin_token
    body = {"name": "in-parts", "partitions": 3}
    assert standalone.http("POST", "/api/v1/tenants/public/namespaces/default/topics", body, token).status == 201
    client = stock.client()
    name = "persistent://public/default/in-parts"
    assert sorted(client.get_topic_partitions(name)) == [f"{name}-partition-{index}" for index in range(3)]
    consumer = client.subscribe(name, "all")
    producer = client.create_producer(name)
    for number in range(30):
        producer.send(str(number).encode(), partition_key=str(number % 7))
    got = receive(consumer, 30)
    assert sorted(int(message.data()) for message in got) == list(range(30))
    assert len({message.topic_name() for message in got}) > 1


# --- what survives -----------------------------------------------------------------------------------------------------------


def test_receipted_messages_and_clients_survive_the_death_of_the_broker(standalone: Standalone, stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "survivor")
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1)
    receipted: list[int] = []

    def noted(number: int) -> object:
        return lambda result, _: receipted.append(number) if result == pulsar.Result.Ok else None

    for number in range(500):
        producer.send_async(str(number).encode(), noted(number))
    producer.flush()
    for number in range(500, 1000):  # under way when the broker dies; the client sends again what has no receipt
        producer.send_async(str(number).encode(), noted(number))
    standalone.kill_child("broker")
    producer.flush()
    assert sorted(receipted) == list(range(1000))
    producer.send(b"1000")  # the same producer, after its reconnection
    got: set[int] = set()
    while 1000 not in got:
        message = consumer.receive(20_000)
        consumer.acknowledge(message)
        got.add(int(message.data()))
    assert got == set(range(1001))


def test_it_keeps_its_address_when_it_comes_back(standalone: Standalone, stock: Stock, topic: str) -> None:
    standalone.kill_child("broker")
    stock.client().create_producer(topic).send(b"still here")
    restarts = standalone.child("broker")["restarts"]
    assert restarts >= 1
    scrape = standalone.http("GET", "/metrics").text
    assert f'magnetar_child_restarts_total{{child="broker"}} {float(restarts)}' in scrape
    assert 'magnetar_child_up{child="broker"} 1.0' in scrape


# --- the other things that clients do ----------------------------------------------------------------------------------------
