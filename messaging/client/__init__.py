"""Magnetar's client for Python: asyncio, typed, pure Python. Also a client of any Apache Pulsar.

::

    from messaging import client as magnetar

    async with magnetar.connect("pulsar://127.0.0.1:6650", key=KEY) as client:
        async with client.producer("persistent://acme/orders/new") as producer:
            await producer.send(b"hello", key="customer-7")
        async with client.consumer("persistent://acme/orders/new", "billing", initial="earliest") as consumer:
            async for message in consumer:
                await consumer.ack(message)

How it is built: `wire` is a connection, of which the protocol's state is pure; `producing` and `consuming` are the ways of a
message, a module for each stage, of which most are pure; `reopening` keeps a producer or consumer open, and `client` is the front.
"""

from messaging.client import errors
from messaging.client.client import Client, connect
from messaging.client.consuming.consumer import Consumer
from messaging.client.consuming.options import DeadLetterPolicy
from messaging.client.consuming.reader import Reader
from messaging.client.consuming.redelivery import RedeliveryBackoff
from messaging.client.consuming.table_view import TableView
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.message import EARLIEST, LATEST, Message, MessageId, OutgoingMessage
from messaging.client.producing.producer import Producer
from messaging.client.schemas import (
    AUTO_CONSUME,
    AUTO_PRODUCE_BYTES,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    INT8,
    INT16,
    INT32,
    INT64,
    LOCAL_DATE,
    LOCAL_DATE_TIME,
    LOCAL_TIME,
    STRING,
    TIME,
    TIMESTAMP,
    Avro,
    Json,
    KeyValue,
    Protobuf,
    Schema,
)

__all__ = [
    "AUTO_CONSUME",
    "AUTO_PRODUCE_BYTES",
    "BOOLEAN",
    "BYTES",
    "DATE",
    "DOUBLE",
    "EARLIEST",
    "FLOAT",
    "INSTANT",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "LATEST",
    "LOCAL_DATE",
    "LOCAL_DATE_TIME",
    "LOCAL_TIME",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "Avro",
    "Client",
    "Consumer",
    "DeadLetterPolicy",
    "Decryptor",
    "Encryptor",
    "Json",
    "KeyValue",
    "Message",
    "MessageId",
    "OutgoingMessage",
    "Producer",
    "Protobuf",
    "Reader",
    "RedeliveryBackoff",
    "Schema",
    "TableView",
    "connect",
    "errors",
]
