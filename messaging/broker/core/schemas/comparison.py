"""What comparing one schema with others takes: definitions that were parsed for it, and a budget for all of them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache

from messaging.broker.core.schemas import key_value, protobuf_native
from messaging.broker.core.schemas.avro import Avro, Budget, parsed_json
from messaging.broker.core.schemas.model import AVRO_BASED, Schema, SchemaError, SchemaType

PARSED_KEPT = 4  # key and value of two schemas


class Comparison:
    """A schema is parsed once, whatever the number of those it is compared with. Methods raise `SchemaError` for a schema that is
    not a valid one of its type, or when the budget is spent."""

    def __init__(self, rest: Callable[[], None] = lambda: None) -> None:
        """`rest` is called after each portion of its work."""
        self.budget = Budget(rest=rest)
        self._definition = lru_cache(PARSED_KEPT)(self._parsed)

    def definition(self, schema: Schema) -> Avro | None:
        """Of a schema whose type is based on Avro. None for a JSON Schema document instead of an Avro definition, as Java clients
        of 2018 sent it: it is stored and not compared."""
        return self._definition(schema.type, schema.data)

    def check_valid(self, schema: Schema) -> None:
        if schema.type in AVRO_BASED:
            definition = self.definition(schema)
            if schema.type is SchemaType.AVRO and definition is not None and isinstance(definition.root, list):
                raise SchemaError("an AVRO schema that is a union is not supported: put it into a record")
        elif schema.type is SchemaType.PROTOBUF_NATIVE:
            protobuf_native.root_message(schema.data)
        elif schema.type is SchemaType.KEY_VALUE:
            for part in key_value.parts(schema):
                self.check_valid(part)

    def form_of(self, schema: Schema) -> bytes:
        """A digest that two schemas share if they are the same, so that a client gets the version that exists."""
        digest = hashlib.sha256(b"%d " % schema.type)
        if schema.type is SchemaType.KEY_VALUE:
            for part in key_value.parts(schema):
                digest.update(self.form_of(part))
        elif schema.type in AVRO_BASED and (definition := self.definition(schema)) is not None:
            digest.update(b"definition " + definition.canonical)
        else:
            digest.update(b"data " + schema.data)
        return digest.digest()

    def _parsed(self, kind: SchemaType, data: bytes) -> Avro | None:
        if kind is SchemaType.JSON:
            document = parsed_json(data)
            if isinstance(document, dict) and document.get("type") == "object":
                return None
        definition = Avro(data)
        self.budget.spend(definition.values)
        return definition
