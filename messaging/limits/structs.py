"""Checks decoded JSON objects against a table of limits, by ``Type.field`` or by ``field``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from messaging.limits import rest, websocket
from messaging.limits.model import Limit, violation

Row = tuple[str, str, Limit | None]  # attribute, name in JSON, limit
TABLES: dict[str, Mapping[str, Limit]] = {"websocket": websocket.WEBSOCKET, "pulsar": rest.PULSAR, "rpc": rest.RPC}


@cache
def _rows(kind: type[msgspec.Struct], table: str) -> tuple[Row, ...]:
    limits = TABLES[table]
    return tuple(
        (field.name, field.encode_name, limits.get(f"{kind.__name__}.{field.name}") or limits.get(field.name))
        for field in msgspec.structs.fields(kind)
    )


def over_limit(value: msgspec.Struct, table: str) -> tuple[str, Limit] | None:
    """What is wrong with the first field over its limit, in this object or a nested one, and that limit; None if nothing is."""
    for attribute, name, limit in _rows(type(value), table):
        held: Any = getattr(value, attribute)
        if held is None or held is msgspec.UNSET:
            continue
        if limit is not None and (wrong := violation(name, held, limit)) is not None:
            return wrong, limit
        for one in held if isinstance(held, list) else (held,):
            if isinstance(one, msgspec.Struct) and (found := over_limit(one, table)) is not None:
                return found
    return None


def check(value: msgspec.Struct, table: str) -> None:
    """Raises the error of the limit."""
    found = over_limit(value, table)
    if found is not None:
        wrong, limit = found
        raise limit.error(wrong)
