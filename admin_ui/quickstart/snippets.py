"""Complete programs for the quick start: each produces a message, receives it and acknowledges it.

Values are written as JSON strings, so that no topic name can break out of its quotes.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from admin_ui.broker import Addresses
from admin_ui.translation.texts import gettext


class Snippet(NamedTuple):
    tab: str
    install: str
    file: str
    code: str
    run: str


def snippets(addresses: Addresses, topic: str, token: str) -> list[Snippet]:
    broker_url = addresses.broker_url or "pulsar://127.0.0.1:6650"
    return [
        Snippet(
            "Python",
            "pip install pulsar-client",
            "hello.py",
            python(broker_url, topic, token),
            gettext("Save it as hello.py and run: python hello.py"),
        ),
        Snippet(
            "Java",
            "org.apache.pulsar:pulsar-client:4.0.0",
            "Hello.java",
            java(broker_url, topic, token),
            gettext("Works with Pulsar clients 2.8 and later."),
        ),
        Snippet(
            "Magnetar SDK",
            "pip install .",
            "hello.py",
            sdk(addresses, topic, token),
            gettext("Install it from a checkout of Magnetar. It uses WebSockets, which pass through HTTP proxies."),
        ),
    ]


def python(broker_url: str, topic: str, token: str) -> str:
    return f"""\
import pulsar

client = pulsar.Client(
    {_text(broker_url)},
    authentication=pulsar.AuthenticationToken(
        {_text(token)}
    ),
    logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn),
)
topic = {_text(topic)}

consumer = client.subscribe(
    topic,
    "quick-start",
    initial_position=pulsar.InitialPosition.Earliest,
)
producer = client.create_producer(topic)

producer.send("Hello, Magnetar".encode(), properties={{"from": "quick start"}})

message = consumer.receive(timeout_millis=10_000)
print("received:", message.data().decode(), message.message_id())
consumer.acknowledge(message)

client.close()
"""


def java(broker_url: str, topic: str, token: str) -> str:
    return f"""\
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;

public class Hello {{
    public static void main(String[] args) throws Exception {{
        try (PulsarClient client = PulsarClient.builder()
                .serviceUrl({_text(broker_url)})
                .authentication(AuthenticationFactory.token(
                        {_text(token)}))
                .build()) {{
            String topic = {_text(topic)};
            Consumer<String> consumer = client.newConsumer(Schema.STRING)
                    .topic(topic)
                    .subscriptionName("quick-start")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                    .subscribe();
            Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).create();

            producer.send("Hello, Magnetar");

            Message<String> message = consumer.receive(10, TimeUnit.SECONDS);
            System.out.println("received: " + message.getValue() + " " + message.getMessageId());
            consumer.acknowledge(message);
        }}
    }}
}}
"""


def sdk(addresses: Addresses, topic: str, token: str) -> str:
    return f"""\
import asyncio

from messaging import client as magnetar

URL = {_text(addresses.ws_url or "ws://127.0.0.1:8081")}
KEY = {_text(token)}
TOPIC = {_text(topic)}


async def main() -> None:
    async with magnetar.connect(URL, key=KEY) as client:
        async with client.consumer(TOPIC, "quick-start", initial="earliest") as consumer:
            async with client.producer(TOPIC) as producer:
                await producer.send(b"Hello, Magnetar", properties={{"from": "quick start"}})
            message = await consumer.receive(timeout_s=10)
            print("received:", message.payload.decode(), message.id)
            await consumer.ack(message)


asyncio.run(main())
"""


def _text(value: str) -> str:
    """A string literal in double quotes: what JSON writes is valid in Python and Java alike."""
    return json.dumps(value, ensure_ascii=False)
