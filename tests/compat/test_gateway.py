"""The SDK through the web port of a running platform: its real web process, with the loop that it runs on, and the real broker."""

from __future__ import annotations

import pytest

from messaging.client import blocking as magnetar
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


def over_the_web_port(standalone: Standalone, token: str) -> magnetar.Client:
    return magnetar.connect(standalone.ready["web_url"].replace("http", "ws", 1), key=token, open_timeout_s=60)


def test_a_web_process_that_restarts_loses_and_repeats_nothing(standalone: Standalone, topic: str) -> None:
    with over_the_web_port(standalone, standalone.admin_token) as client:
        consumer, producer = client.consumer(topic, "s"), client.producer(topic, batch_messages_max=10, send_timeout_s=60)
        sent = [producer.send_nowait(b"%d" % number) for number in range(100)]
        producer.flush()
        before = [consumer.receive(20) for _ in range(100)]
        for message in before:
            consumer.ack(message)
        standalone.kill_child("web")
        sent += [producer.send_nowait(b"%d" % number) for number in range(100, 200)]
        producer.flush()
        after: list[magnetar.Message] = []
        while not after or after[-1].payload != b"199":
            after.append(consumer.receive(30))
            consumer.ack(after[-1])
        assert len({future.result() for future in sent}) == 200, "each is stored once"
        # What was acknowledged as the process died may come again, in its place.
        assert [int(message.payload) for message in before] == list(range(100))
        assert [number for number in (int(message.payload) for message in after) if number >= 100] == list(range(100, 200))


def test_a_key_that_is_revoked_ends_its_connections(standalone: Standalone) -> None:
    admin = standalone.admin_token
    standalone.http("POST", "/api/v1/tenants", {"name": "tunnelled"}, admin)
    standalone.http("POST", "/api/v1/tenants/tunnelled/namespaces", {"name": "orders"}, admin)
    key = standalone.http("POST", "/api/v1/tenants/tunnelled/keys", {"name": "app"}, admin).json()
    grant = "/api/v1/tenants/tunnelled/namespaces/orders/permissions/app@tunnelled"
    standalone.http("PUT", grant, {"actions": ["produce", "consume"]}, admin)
    topic = "persistent://tunnelled/orders/t"
    with over_the_web_port(standalone, key["token"]) as client:
        consumer, producer = client.consumer(topic, "s"), client.producer(topic, send_timeout_s=60)
        producer.send(b"before")
        assert consumer.receive(20).payload == b"before"
        answer = standalone.http("GET", "/api/v1/tenants/tunnelled/keys", None, admin).json()
        [listed] = [item for item in answer["items"] if item["name"] == "app"]
        assert standalone.http("DELETE", f"/api/v1/tenants/tunnelled/keys/{listed['id']}", None, admin).status == 200

        def refused() -> bool:
            try:
                producer.send(b"after")
            except magnetar.errors.MagnetarError as error:
                return "revoked" in f"{error} {error.__cause__}"
            return False

        eventually_sync(refused, 30)
        with pytest.raises(magnetar.errors.MagnetarError):
            while True:
                consumer.ack(consumer.receive(30))
    with pytest.raises(magnetar.errors.AuthenticationFailed), over_the_web_port(standalone, key["token"]) as client:
        client.producer(topic)
