"""The JSON schemas of structs, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.limits.model import Limit
from messaging.limits.structs import limits_of, structs_in

REF = "#/components/schemas/{name}"
Schema = dict[str, Any]


def schemas_of(kind: type[msgspec.Struct], *, answer: bool) -> dict[str, Schema]:
    """The struct and those within it, by name. `answer`: it is sent by us, and so with all its fields."""
    _, components = msgspec.json.schema_components((kind,), ref_template=REF)
    limits = {struct.__name__: _limits_in_json(struct) for struct in structs_in(kind)}
    return {name: _object(schema, limits[name], answer=answer) for name, schema in components.items()}


def _limits_in_json(kind: type[msgspec.Struct]) -> dict[str, Limit]:
    limits = limits_of(kind)
    return {field.encode_name: limits[field.name] for field in msgspec.structs.fields(kind) if field.name in limits}


def _object(schema: Schema, limits: dict[str, Limit], *, answer: bool) -> Schema:
    properties = {
        name: _with_limit(value, limits[name]) if name in limits else value for name, value in schema["properties"].items()
    }
    if not answer:
        required = {"required": schema["required"]} if schema["required"] else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}
    for value in properties.values():
        value.pop("default", None)
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"type": "object", **described, "properties": properties, "required": list(properties)}


def _with_limit(schema: Schema, limit: Limit) -> Schema:
    """The bounds that a schema can express: sizes in bytes are more strict than those in characters, and so bound them."""
    bounds: dict[str, Schema] = {
        "integer": {"minimum": limit.minimum, "maximum": limit.maximum},
        "number": {"minimum": limit.minimum, "maximum": limit.maximum},
        "string": {"maxLength": limit.bytes_max},
        "array": {"maxItems": limit.count_max},
        "object": {"maxProperties": limit.count_max},
    }
    more = {name: bound for name, bound in bounds.get(schema.get("type", ""), {}).items() if bound is not None}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            more[inner] = _with_limit(schema[inner], limit._replace(minimum=None, maximum=None, count_max=None))
    if "anyOf" in schema:
        more["anyOf"] = [_with_limit(branch, limit) for branch in schema["anyOf"]]
    return {**schema, **more}
