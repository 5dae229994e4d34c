"""What a value is as bytes. The broker keeps the description of a topic's schema, and refuses producers and consumers that do not
fit it.
"""

from messaging.client.schemas.avro import Avro
from messaging.client.schemas.json import Json
from messaging.client.schemas.key_value import KeyValue
from messaging.client.schemas.protobuf import Protobuf
from messaging.client.schemas.schema import BYTES, STRING, Schema

__all__ = ["BYTES", "STRING", "Avro", "Json", "KeyValue", "Protobuf", "Schema"]
