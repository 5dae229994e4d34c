"""The definition of a schema as text: of KEY_VALUE a JSON object with ``key`` and ``value``."""

from __future__ import annotations

import json
from typing import Any

from messaging.adminrpc.schemas import SchemaStored
from messaging.errors import InvalidSchema
from messaging.limits.json_values import check_values, has_more_values
from messaging.limits.rest import BODY_VALUES_MAX


def schema_data(type_name: str, text: str) -> bytes:
    """As clients send it. Raises `InvalidSchema`."""
    return _key_value_data(text) if type_name == "KEY_VALUE" else text.encode()


def _key_value_data(text: str) -> bytes:
    """Length and data of both parts, as clients send them."""
    check_values(text, "the schema")
    try:
        parts = json.loads(text)
        data = [_part(parts[which]) for which in ("key", "value")]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidSchema("the schema of a KEY_VALUE is not a JSON object with key and value") from None
    return b"".join(len(part).to_bytes(4, "big") + part for part in data)


def _part(part: Any) -> bytes:
    return (part if isinstance(part, str) else json.dumps(part, separators=(",", ":"))).encode()


def schema_text(stored: SchemaStored) -> str:
    if stored.type != "KEY_VALUE":
        return stored.data.decode(errors="replace")
    parts, rest = {}, stored.data
    for which in ("key", "value"):
        size = max(int.from_bytes(rest[:4], "big", signed=True), 0)
        part, rest = rest[4 : 4 + size].decode(errors="replace"), rest[4 + size :]
        parts[which] = _definition(part)
    return json.dumps(parts, separators=(",", ":"))


def _definition(text: str) -> Any:
    if has_more_values(text, BODY_VALUES_MAX):  # the value of a type that is not described in JSON
        return text
    try:
        definition = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return definition if isinstance(definition, dict | list) else text
