"""Definitions of Avro types in JSON: which are valid, and their named types.

The rules are those of Pulsar's broker (Avro for Java, which does not look at defaults), so that a schema is accepted by both or by
neither. Not checked, as there: whether a default is a value of its type, and whether a logical type fits its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from messaging.broker.core.schemas.model import SchemaError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
ORDERS = frozenset({"ascending", "descending", "ignore"})
SIZE_MAX = (1 << 31) - 9  # bytes: of an array in Java
SHOWN = 80  # characters of a name in a message

# As a text. Possessive: a client may send a million digits, each of which is looked at once.
_DECIMAL = r"(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?"
_HEX = r"0[xX]([\da-fA-F]++\.?|[\da-fA-F]*+\.[\da-fA-F]++)[pP][+-]?\d++"
_NUMBER = re.compile(rf"\s*+[+-]?(NaN|Infinity|({_DECIMAL}|{_HEX})[fFdD]?)\s*+", re.ASCII)

Definition = Any  # parsed JSON: a name, a list (union), or an object
Named = dict[str, dict[str, Any]]


def resolved(definition: Definition) -> tuple[Definition, Named]:
    """`definition` with the full names of its types in place of short ones, and its named types by full name. Raises `SchemaError`
    if it is not valid, `RecursionError` if it is nested too deeply."""
    definitions = _Definitions()
    return definitions.read(definition, ""), definitions.named


class _Definitions:
    def __init__(self) -> None:
        self.named: Named = {}
        self._readers: dict[str, Callable[[dict[str, Any], str], Definition]] = {
            "record": self._record,
            "error": self._record,
            "enum": self._enum,
            "fixed": self._fixed,
            "array": self._array,
            "map": self._map,
        }

    def read(self, definition: Definition, namespace: str) -> Definition:
        """`namespace`: of the type around it."""
        if isinstance(definition, str):
            return self._reference(definition, namespace)
        if isinstance(definition, list):
            return self._union(definition, namespace)
        if not isinstance(definition, dict):
            raise SchemaError(f"{_shown(definition)} is not an Avro type")
        kind = definition.get("type")
        if not isinstance(kind, str):
            raise SchemaError(f"a type has no name of a type as its `type`: {_shown(kind)}")
        read = self._readers.get(kind)
        if read is None:
            return {**definition, "type": self._reference(kind, namespace)}
        return read(definition, namespace)

    def _reference(self, name: str, namespace: str) -> str:
        if name in PRIMITIVES:
            return name
        full_name, _ = _full_name(name, namespace)
        if full_name not in self.named:
            full_name = name
        if full_name not in self.named:
            raise SchemaError(f"the type {_shown(name)} is not defined")
        return full_name

    def _union(self, members: list[Definition], namespace: str) -> list[Definition]:
        branches = [self.read(member, namespace) for member in members]
        names: set[str] = set()
        for branch in branches:
            if isinstance(branch, list):
                raise SchemaError("a union has a union in it")
            name = branch if isinstance(branch, str) else branch["name"] if branch["type"] in NAMED else branch["type"]
            if name in names:
                raise SchemaError(f"a union has two of the type {_shown(name)}")
            names.add(name)
        return branches

    def _array(self, definition: dict[str, Any], namespace: str) -> Definition:
        return {**definition, "items": self._inner(definition, "items", namespace)}

    def _map(self, definition: dict[str, Any], namespace: str) -> Definition:
        return {**definition, "values": self._inner(definition, "values", namespace)}

    def _inner(self, definition: dict[str, Any], key: str, namespace: str) -> Definition:
        if key not in definition:
            raise SchemaError(f"an {definition['type']} has no `{key}`")
        return self.read(definition[key], namespace)

    # --- named types

    def _define(self, definition: dict[str, Any], namespace: str) -> tuple[dict[str, Any], str]:
        """The type, to which its own parts are added, and the namespace of what is in it."""
        own = definition.get("namespace")
        full_name, inside = _full_name(
            _name_in(definition, f"a type {definition['type']}"), own if isinstance(own, str) else namespace
        )
        if full_name in PRIMITIVES:
            raise SchemaError(f"{full_name} is a primitive type: a type cannot be named like one")
        if full_name in self.named:
            raise SchemaError(f"the type {_shown(full_name)} is defined twice")
        for alias in _aliases(definition):
            _full_name(alias, inside)
        self.named[full_name] = read = {**definition, "name": full_name}
        read.pop("namespace", None)
        return read, inside

    def _record(self, definition: dict[str, Any], namespace: str) -> Definition:
        record, inside = self._define(definition, namespace)
        fields = definition.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"the record {_shown(record['name'])} has no list of fields")
        record["fields"] = [self._field(field, inside) for field in fields]
        _require_different([field["name"] for field in record["fields"]], f"the record {_shown(record['name'])}")
        return record

    def _field(self, field: Definition, namespace: str) -> dict[str, Any]:
        if not isinstance(field, dict):
            raise SchemaError(f"{_shown(field)} is not a field of a record")
        name = _name_in(field, "a field")
        _require_name(name)
        if "type" not in field:
            raise SchemaError(f"the field {_shown(name)} has no type")
        read = {**field, "type": self.read(field["type"], namespace)}
        order = field.get("order", "ignore")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            raise SchemaError(f"the order of the field {_shown(name)} is none of {', '.join(sorted(ORDERS))}")
        default = field.get("default")
        if isinstance(default, str) and _kind(read["type"]) in ("float", "double") and not _NUMBER.fullmatch(default):
            raise SchemaError(f"the default of the field {_shown(name)} is not a number")
        _aliases(field)
        return read

    def _enum(self, definition: dict[str, Any], namespace: str) -> Definition:
        enum, _ = self._define(definition, namespace)
        symbols, place = definition.get("symbols"), f"the enum {_shown(enum['name'])}"
        if not isinstance(symbols, list):
            raise SchemaError(f"{place} has no list of symbols")
        for symbol in symbols:
            _require_name(symbol)
        _require_different(symbols, place)
        default = definition.get("default")
        if isinstance(default, str) and default not in symbols:
            raise SchemaError(f"the default of {place} is not one of its symbols")
        return enum

    def _fixed(self, definition: dict[str, Any], namespace: str) -> Definition:
        fixed, _ = self._define(definition, namespace)
        size = definition.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= SIZE_MAX:
            raise SchemaError(f"the fixed {_shown(fixed['name'])} has no size from 0 to {SIZE_MAX}")
        return fixed


def _kind(definition: Definition) -> object:
    return definition["type"] if isinstance(definition, dict) else definition


def _full_name(name: str, namespace: str) -> tuple[str, str]:
    """And its namespace. Raises `SchemaError`."""
    space, dot, last = name.rpartition(".")
    _require_name(last)
    namespace = space if dot else namespace
    return (f"{namespace}.{last}" if namespace else last), namespace


def _name_in(definition: dict[str, Any], place: str) -> str:
    name = definition.get("name")
    if not isinstance(name, str):
        raise SchemaError(f"{place} has no name")
    return name


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not _is_name(name):
        raise SchemaError(f"{_shown(name)} is not a name: letters, digits and _ are allowed, and no digit at the beginning")


def _is_name(text: str) -> bool:
    """Java's letters and digits, of which those beyond the first 65,536 code points are none."""
    return (
        text[:1].replace("_", "a").isalpha()
        and all(character == "_" or character.isalpha() or character.isdecimal() for character in text)
        and max(text) <= "\uffff"
    )


def _require_different(names: list[str], place: str) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise SchemaError(f"{place} has {_shown(name)} twice")
        known.add(name)


def _aliases(definition: dict[str, Any]) -> list[str]:
    aliases = definition.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise SchemaError("aliases are not a list of names")
    return aliases


def _shown(value: object) -> str:
    return repr(value)[:SHOWN]
