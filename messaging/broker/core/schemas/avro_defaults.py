"""Whether the defaults of an Avro schema are values of their types.

As in Avro for Java, there are two rules. Defaults of a schema that is to follow others have to fit exactly. A schema that reads
data of another needs usable ones where fields are missing in the data: any number will do for a number, and what is no array or
map for an empty one, but a symbol must be one of its enum. A default of a union is one of any of its types, as since Avro 1.12:
Pulsar's Python client writes such ones, which Avro for Java 1.11 refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.broker.core.schemas.avro_definitions import Definition, Named
from messaging.broker.core.schemas.model import SchemaError

DEPTH_MAX = 64
INTEGER_BITS = {"int": 31, "long": 63}
TEXTS = frozenset({"string", "bytes", "fixed"})
_MISSING = object()


class Defaults:
    """`spend` is called for each value that is looked at; it raises `SchemaError` when there were too many. So do the methods."""

    def __init__(self, resolve: Callable[[Definition], Definition], spend: Callable[[], None]) -> None:
        self._resolve = resolve
        self._spend = spend

    def why_bad(self, named: Named) -> str:
        """Which default of the records in `named` does not fit exactly; "" if all do."""
        for name, definition in named.items():
            for field in definition.get("fields", ()):
                if "default" in field and not self._fits(field["type"], self._default(field), 0, exact=True):
                    return f"the default of the field {field['name']} of {name} is not a value of its type"
        return ""

    def is_usable(self, field: dict[str, Any]) -> bool:
        return self._fits(field["type"], self._default(field), 0, exact=False)

    def _default(self, field: dict[str, Any]) -> object:
        default = field.get("default", _MISSING)
        if isinstance(default, str) and self._resolve(field["type"]) in ("float", "double"):
            return 0.0  # a number that is written as a text
        return default

    def _fits(self, definition: Definition, value: Any, depth: int, *, exact: bool) -> bool:
        self._spend()
        if depth > DEPTH_MAX:
            raise SchemaError("the defaults of the schema are nested too deeply, or in each other: use simpler ones")
        definition = self._resolve(definition)
        if isinstance(definition, list):
            return any(self._fits(branch, value, depth + 1, exact=exact) for branch in definition)
        kind = definition if isinstance(definition, str) else definition["type"]
        if kind in ("record", "error"):
            return self._fits_record(definition, value, depth, exact=exact)
        if kind == "enum":
            return isinstance(value, str) and (exact or value in definition["symbols"])
        if kind not in ("array", "map"):
            return _fits_primitive(kind, value, exact=exact)
        wanted, inner = (list, "items") if kind == "array" else (dict, "values")
        if exact and not isinstance(value, wanted):
            return False
        inner_values = value.values() if isinstance(value, dict) else value if isinstance(value, list) and kind == "array" else ()
        return all(self._fits(definition[inner], inner_value, depth + 1, exact=exact) for inner_value in inner_values)

    def _fits_record(self, record: dict[str, Any], value: Any, depth: int, *, exact: bool) -> bool:
        if not isinstance(value, dict):
            if exact:
                return False
            value = {}
        for field in record["fields"]:
            field_value = value[field["name"]] if field["name"] in value else self._default(field)
            if field_value is _MISSING or not self._fits(field["type"], field_value, depth + 1, exact=exact):
                return False
        return True


def _fits_primitive(kind: str, value: object, *, exact: bool) -> bool:
    if kind in TEXTS:
        return isinstance(value, str)
    if kind == "null":
        return value is None
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    if exact and kind in INTEGER_BITS:
        return isinstance(value, int) and -(1 << INTEGER_BITS[kind]) <= value < 1 << INTEGER_BITS[kind]
    return isinstance(value, int | float)
