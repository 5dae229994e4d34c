"""What a value is as bytes. The broker keeps the description of a topic's schema, and refuses producers and consumers that do not
fit it.
"""

from messaging.client.schemas.automatic import AUTO_CONSUME, AUTO_PRODUCE_BYTES, AutoConsume, AutoProduceBytes
from messaging.client.schemas.avro import Avro
from messaging.client.schemas.json import Json
from messaging.client.schemas.key_value import KeyValue
from messaging.client.schemas.primitives import (
    BOOLEAN,
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
    TIME,
    TIMESTAMP,
)
from messaging.client.schemas.protobuf import Protobuf
from messaging.client.schemas.schema import BYTES, STRING, Schema

__all__ = [
    "AUTO_CONSUME",
    "AUTO_PRODUCE_BYTES",
    "BOOLEAN",
    "BYTES",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INSTANT",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "LOCAL_DATE",
    "LOCAL_DATE_TIME",
    "LOCAL_TIME",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "AutoConsume",
    "AutoProduceBytes",
    "Avro",
    "Json",
    "KeyValue",
    "Protobuf",
    "Schema",
]
