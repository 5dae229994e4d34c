"""Schemas of topics in files of `magnetar plan`. Pure.

A topic has what a file says where any of its versions is that one: the same schema again is no new version. A schema is never taken
away by a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controlplane.cli.remote.desired_parts import Change, Json, WrongFile, object_of, texts_of

FIELDS = ("type", "schema", "properties")


def parsed_schema(given: Any, at: str) -> Json:
    """`schema` may be the text of the definition, or the definition itself. Raises `WrongFile`."""
    body = object_of(given, at, FIELDS)
    if not isinstance(body.get("type"), str) or not body["type"]:
        raise WrongFile(f"{at}.type is missing: give a type of schemas, such as AVRO or JSON")
    definition = body.get("schema", "")
    if not isinstance(definition, str):
        definition = json.dumps(definition)
    return {"type": body["type"].upper(), "schema": definition, "properties": texts_of(body, f"{at}.", "properties") or {}}


def schema_changes(place: tuple[str, ...], wanted: list[Json], versions: list[Json]) -> Iterator[Change]:
    for schema in wanted:
        if not any(_same(schema, version) for version in versions):
            yield Change("change" if versions else "create", "schema", place, _shown(versions[-1]) if versions else None, schema)


def shown_schema(versions: list[Json]) -> Json | None:
    """The newest as a file says it, the definition as an object where it is one."""
    if not versions:
        return None
    newest = _shown(versions[-1])
    definition = _read(newest["schema"])
    shown = newest | {"schema": definition if isinstance(definition, dict | list) else newest["schema"]}
    return {name: value for name, value in shown.items() if value}


def _shown(version: Json) -> Json:
    return {name: version.get(name) or ({} if name == "properties" else "") for name in FIELDS}


def _same(wanted: Json, version: Json) -> bool:
    present = _shown(version)
    if (wanted["type"], wanted["properties"]) != (present["type"].upper(), present["properties"]):
        return False
    return bool(_read(wanted["schema"]) == _read(present["schema"]))


def _read(definition: str) -> Any:
    """However it is spaced, a definition in JSON is the same."""
    try:
        return json.loads(definition)
    except ValueError:
        return definition
