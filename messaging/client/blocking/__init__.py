"""The SDK for programs without an event loop: the same names, and each call returns when it is done.

::

    from messaging.client import blocking as magnetar

    with magnetar.connect("pulsar://127.0.0.1:6650", key=KEY) as client:
        with client.producer("persistent://acme/orders/new") as producer:
            producer.send(b"hello", key="customer-7")
        with client.consumer("persistent://acme/orders/new", "billing", initial="earliest") as consumer:
            for message in consumer:
                consumer.ack(message)

`generated.py` is made from the asynchronous classes (`make client`); `loop_thread.py` is the thread in which they run. A client may
be used from several threads. Callbacks (interceptors, routers, listeners) run in the client's thread and must not wait for it.
"""

from messaging.client import errors
from messaging.client.blocking.client import connect
from messaging.client.blocking.generated import Client, Consumer, DelayedMessages, Producer, Reader, TableView
from messaging.client.consuming.options import DeadLetterPolicy
from messaging.client.consuming.redelivery import RedeliveryBackoff
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.message import EARLIEST, LATEST, Message, MessageId, OutgoingMessage
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
    "DelayedMessages",
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
