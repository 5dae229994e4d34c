"""Avro definitions: validity, equality, and whether data written with one can be read with another (the rules of schema resolution
in the Avro specification). Names of records are not compared, as in Pulsar: only their fields matter.

Definitions come from clients, so the work is bounded: `VALUES_MAX` values in a definition, counted before it is parsed, and a
`Budget` of values parsed and pairs of types compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

from messaging.broker.core.schemas.avro_defaults import Defaults
from messaging.broker.core.schemas.avro_definitions import NAMED, Definition, resolved
from messaging.broker.core.schemas.model import SchemaError
from messaging.limits.json_values import has_more_values

DEPTH_MAX = 64
VALUES_MAX = 10_000
STEPS_MAX = 300_000  # some 300 ms: of one schema with all that it is compared with
PORTION_STEPS = 2_000  # some 2 ms; then whoever compares lets others work
# What a writer's type may be read as, besides itself.
PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}

_LEFT_OUT = frozenset({"doc"})


class Avro:
    """A parsed definition of so many `values`; `named` are its named types by full name. Raises `SchemaError` if it is invalid."""

    def __init__(self, data: bytes) -> None:
        definition = parsed_json(data)
        try:
            self.values = _count_values(definition)
            self.root, self.named = resolved(definition)
        except SchemaError as error:
            raise SchemaError(f"the schema is not a valid Avro definition: {error}") from None

    @cached_property
    def canonical(self) -> bytes:
        """The same for definitions that differ in documentation, white space and the order of keys only."""
        return json.dumps(_undocumented(self.root), sort_keys=True, separators=(",", ":")).encode()

    def resolve(self, definition: Definition) -> Definition:
        """A named type in place of its name; an object without further content as its type's name."""
        while True:
            if isinstance(definition, str):
                return self.named.get(definition, definition)
            if isinstance(definition, dict) and definition["type"] not in NAMED | {"array", "map"}:
                definition = definition["type"]
                continue
            return definition


def parsed_json(data: bytes) -> Definition:
    """Raises `SchemaError`."""
    if has_more_values(data, VALUES_MAX):
        raise SchemaError(f"the schema has more than {VALUES_MAX} parts: use a smaller one")
    try:
        text = data.decode()
        definition = json.loads(text, parse_constant=_no_constant)
        if "\\u" in text:  # half a surrogate pair is JSON, but no text: neither it nor a message about it could be sent
            json.dumps(definition, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not valid JSON: {error}") from None
    return definition


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _undocumented(definition: Definition) -> Definition:
    if isinstance(definition, list):
        return [_undocumented(branch) for branch in definition]
    if not isinstance(definition, dict):
        return definition
    return {key: value if key == "default" else _undocumented(value) for key, value in definition.items() if key not in _LEFT_OUT}


def _count_values(definition: Definition) -> int:
    """Raises `SchemaError` for one that is nested too deeply."""
    values, level = 1, [definition]
    for _ in range(DEPTH_MAX):
        level = [inner for outer in level for inner in _inner(outer)]
        values += len(level)
        if not level:
            return values
    raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep: use a flatter one")


def _inner(definition: Definition) -> list[Definition]:
    if isinstance(definition, dict):
        return list(definition.values())
    return definition if isinstance(definition, list) else []


class Budget:
    """How many more values may be parsed and pairs of types compared. `rest` is called after each portion of them."""

    def __init__(self, left: int = STEPS_MAX, rest: Callable[[], None] = lambda: None) -> None:
        self.left = left
        self._rest = rest
        self._rest_at = left - PORTION_STEPS

    def spend(self, steps: int = 1) -> None:
        """Raises `SchemaError`."""
        self.left -= steps
        if self.left < 0:
            raise SchemaError("comparing the schemas takes too long: use simpler ones, or fewer versions")
        if self.left <= self._rest_at:
            self._rest_at = self.left - PORTION_STEPS
            self._rest()


def why_bad_default(schema: Avro, budget: Budget) -> str:
    """Which default is not a value of its type; "" if none. Raises `SchemaError` for too many values."""
    return Defaults(schema.resolve, budget.spend).why_bad(schema.named)


def why_unreadable(reader: Avro, writer: Avro, budget: Budget) -> str:
    """Why data written with `writer` cannot be read with `reader`; "" if it can. Raises `SchemaError` for too many comparisons."""
    try:
        return _Resolution(reader, writer, budget).why()
    except RecursionError:
        raise SchemaError("the types of the schema refer to each other too deeply: use a flatter one") from None


class _Resolution:
    """Types may refer to themselves, so a pair of named types is taken to match while it is compared. Pairs are compared again
    until nothing changes: what still matches then does."""

    def __init__(self, reader: Avro, writer: Avro, budget: Budget) -> None:
        self._reader = reader
        self._writer = writer
        self._named: dict[tuple[str, str], str] = {}  # why the data of the second cannot be read with the first
        self._paths: dict[tuple[str, str], str] = {}  # where each pair was met first
        self._known = 0  # raised by each new pair, and by each one that turns out not to match
        self._depth = 0
        self._budget = budget
        self._defaults = Defaults(reader.resolve, budget.spend)

    def why(self) -> str:
        while True:
            known = self._known
            why = self._why(self._reader.root, self._writer.root, "")
            for pair in [pair for pair, reason in self._named.items() if not reason]:
                self._compare(pair)
            if self._known == known:
                return why

    def _compare(self, pair: tuple[str, str]) -> None:
        self._named[pair] = reason = self._why_not_named(pair)
        self._known += bool(reason)

    def _why(self, reader: Definition, writer: Definition, path: str) -> str:
        self._budget.spend()
        reader, writer = self._reader.resolve(reader), self._writer.resolve(writer)
        if isinstance(writer, list):
            return next((why for branch in writer if (why := self._why(reader, branch, path))), "")
        if isinstance(reader, list):
            if any(not self._why(branch, writer, path) for branch in reader):
                return ""
            kinds = ", ".join(dict.fromkeys(_kind(self._reader.resolve(branch)) for branch in reader))
            return f"{_at(path)}: {_kind(writer)} cannot be read as any of {kinds}"
        reads, wrote = _kind(reader), _kind(writer)
        if reads != wrote:
            return "" if reads in PROMOTIONS.get(wrote, ()) else f"{_at(path)}: {wrote} cannot be read as {reads}"
        if reads == "array":
            return self._why(reader["items"], writer["items"], f"{path}[]")
        if reads == "map":
            return self._why(reader["values"], writer["values"], f"{path}{{}}")
        if reads in NAMED:
            pair = reader["name"], writer["name"]
            if pair not in self._named:
                self._named[pair], self._paths[pair] = "", path
                self._known += 1
                if self._depth < DEPTH_MAX:  # deeper ones are taken to match for now
                    self._depth += 1
                    self._compare(pair)
                    self._depth -= 1
            return self._named[pair]
        return ""

    def _why_not_named(self, pair: tuple[str, str]) -> str:
        reader, writer = self._reader.named[pair[0]], self._writer.named[pair[1]]
        path = self._paths[pair]
        kind = _kind(reader)
        if kind == "enum":
            return _why_not_enum(reader, writer, path)
        if kind == "fixed":
            return _why_not_fixed(reader, writer, path)
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            name = field["name"]
            place = f"{path}.{name}" if path else name
            source = next((written[called] for called in (name, *field.get("aliases", ())) if called in written), None)
            if source is None:
                if "default" not in field:
                    return f"{place}: the field is missing in the data and has no default"
                if not self._defaults.is_usable(field):
                    return f"{place}: the field is missing in the data and its default is not a value of its type"
            elif why := self._why(field["type"], source["type"], place):
                return why
        return ""


def _at(path: str) -> str:
    return path or "the schema"


def _kind(definition: Definition) -> str:
    if isinstance(definition, str):
        return definition
    kind = str(definition["type"])
    return "record" if kind == "error" else kind


def _is_called(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    """By its name or an alias; namespaces do not count."""
    names = {_unqualified(full_name) for full_name in (reader["name"], *reader.get("aliases", ()))}
    return _unqualified(writer["name"]) in names


def _unqualified(name: object) -> str:
    return str(name).rpartition(".")[2]


def _why_not_enum(reader: dict[str, Any], writer: dict[str, Any], path: str) -> str:
    """Symbols that the reader does not know are an error of single messages, not of the schema."""
    if not _is_called(reader, writer):
        return f"{_at(path)}: enum {writer['name']} cannot be read as enum {reader['name']}"
    return ""


def _why_not_fixed(reader: dict[str, Any], writer: dict[str, Any], path: str) -> str:
    if not _is_called(reader, writer):
        return f"{_at(path)}: fixed {writer['name']} cannot be read as fixed {reader['name']}"
    if reader["size"] != writer["size"]:
        return f"{_at(path)}: fixed {writer['name']} has {writer['size']} bytes, the reader wants {reader['size']}"
    return ""
