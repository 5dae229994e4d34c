"""What a value is as bytes. The broker keeps the description of a topic's schema, and refuses producers and consumers that do not
fit it.
"""

from messaging.client.schemas.json import Json
from messaging.client.schemas.schema import BYTES, STRING, Schema

__all__ = ["BYTES", "STRING", "Json", "Schema"]
