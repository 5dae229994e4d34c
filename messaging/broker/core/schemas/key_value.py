"""Key-value schemas: two schemas in one. Their data is each part's length (4 bytes, big-endian; -1 for none) and data, the key
first; properties name the types and the encoding (``kv.encoding.type``: INLINE or SEPARATED)."""

from __future__ import annotations

import json

from messaging.broker.core.schemas.model import Schema, SchemaError, SchemaType
from messaging.limits.json_values import has_more_values
from messaging.limits.sizes import PAIRS_COUNT_MAX


def parts(schema: Schema) -> tuple[Schema, Schema]:
    """The schemas of key and value. Raises `SchemaError`."""
    key, rest = _part(schema.data, "key")
    value, rest = _part(rest, "value")
    if rest:
        raise SchemaError(f"the key-value schema has {len(rest)} bytes after its value")
    return _schema_of(schema, "key", key), _schema_of(schema, "value", value)


def _part(data: bytes, which: str) -> tuple[bytes, bytes]:
    if len(data) < 4:
        raise SchemaError(f"the key-value schema ends before the length of its {which}")
    size = int.from_bytes(data[:4], "big", signed=True)
    if size < -1 or size > len(data) - 4:
        raise SchemaError(f"the {which} of the key-value schema has an impossible length: {size}")
    stop = 4 + max(size, 0)
    return data[4:stop], data[stop:]


def _schema_of(schema: Schema, which: str, data: bytes) -> Schema:
    name = schema.properties.get(f"{which}.schema.type", "BYTES")
    try:
        kind = SchemaType.NONE if name in ("BYTES", "NONE") else SchemaType[name]
    except KeyError:
        raise SchemaError(f"the property {which}.schema.type of the key-value schema is unknown: {name[:40]}") from None
    return Schema(kind, data, _properties(schema, which), schema.properties.get(f"{which}.schema.name", ""))


def _properties(schema: Schema, which: str) -> dict[str, str]:
    text = schema.properties.get(f"{which}.schema.properties") or "{}"
    try:
        pairs = None if has_more_values(text.encode(), PAIRS_COUNT_MAX) else json.loads(text)
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, dict):
        raise SchemaError(
            f"the property {which}.schema.properties of the key-value schema is no JSON object of at most {PAIRS_COUNT_MAX} values"
        )
    return {str(name): str(value) for name, value in pairs.items()}
