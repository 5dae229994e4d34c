"""Avro definitions, written down shortly."""

from __future__ import annotations

import json
from typing import Any

from messaging.broker.core.schemas.avro import Avro


def avro(definition: Any) -> Avro:
    return Avro(json.dumps(definition).encode())


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}
