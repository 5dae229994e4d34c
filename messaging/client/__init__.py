"""Magnetar's client for Python: asyncio, typed, pure Python.

::

    from messaging import client as magnetar

    async with magnetar.connect("ws://127.0.0.1:8081", key=KEY) as client:
        async with client.producer("persistent://acme/orders/new") as producer:
            await producer.send(b"hello", key="customer-7")
        async with client.consumer("persistent://acme/orders/new", "billing", initial="earliest") as consumer:
            async for message in consumer:
                await consumer.ack(message)

How it is built: `pipeline`, `inbox` and `backoff` decide and do no I/O; `codec` knows the frames, `transport` the WebSocket;
`producer`, `consumer` and `connection` put futures, tasks and a clock around them.
"""

from messaging.client import errors
from messaging.client.client import Client, connect
from messaging.client.consumer import Consumer
from messaging.client.message import Message, MessageId
from messaging.client.producer import Producer

__all__ = ["Client", "Consumer", "Message", "MessageId", "Producer", "connect", "errors"]
