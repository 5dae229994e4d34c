"""Walks the schemas of every way in: a field that has no limit fails here, and so does a row whose field is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast, get_args

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from messaging.adminrpc.methods import request_structs
from messaging.bodies import choices_in
from messaging.broker.http.websocket.frames import FRAMES
from messaging.broker.http.websocket.parameters import PARAMETERS
from messaging.limits import binary, metadata
from messaging.limits.model import Limit
from messaging.limits.structs import hints_of, limits_of, rows_of
from messaging.protocol import pulsar_pb2 as pb
from tenants.pulsar import bodies
from tenants.rest.document import request_bodies

SIZED = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def messages_below(top: Descriptor, passed_over: frozenset[str] = frozenset()) -> Iterator[Descriptor]:
    """Every message that can be in one, itself among them."""
    seen: set[str] = set()
    waiting = [top]
    while waiting:
        message = waiting.pop()
        if message.name in seen or message.name in passed_over:
            continue
        seen.add(message.name)
        yield message
        waiting += [field.message_type for field in message.fields if field.message_type is not None]


COMMANDS = list(messages_below(cast(Descriptor, pb.Command.DESCRIPTOR), binary.ANSWERS))
FIELDS = [(command.name, field) for command in COMMANDS for field in command.fields]
OF_METADATA = [
    (message.name, field)
    for top in (pb.Metadata.DESCRIPTOR, pb.SingleMetadata.DESCRIPTOR)
    for message in messages_below(cast(Descriptor, top))
    for field in message.fields
]


@pytest.mark.parametrize(("message", "field"), FIELDS, ids=lambda value: getattr(value, "name", value))
def test_every_field_of_every_command_has_a_limit(message: str, field: FieldDescriptor) -> None:
    row = binary.limit_of(message, field.name)
    if field.is_repeated:
        assert row is not None and row.count_max is not None, "a repeated field needs the number of its elements"
    elif field.type in SIZED:
        assert row is not None and row.bytes_max is not None, "a text needs its size"


@pytest.mark.parametrize(("message", "field"), OF_METADATA, ids=lambda value: getattr(value, "name", value))
def test_every_field_of_a_message_has_a_limit(message: str, field: FieldDescriptor) -> None:
    assert metadata.limit_of(message, field.name).why


def test_no_row_is_left_of_a_field_that_is_gone() -> None:
    known = {f"{message}.{field.name}" for message, field in FIELDS}
    assert set(binary.BINARY) <= known
    assert set(binary.BY_FIELD) <= {field.name for _, field in FIELDS}
    assert {field.message_type.name for field in pb.Command.DESCRIPTOR.fields if field.message_type} >= binary.ANSWERS
    assert set(metadata.METADATA) <= {f"{message}.{field.name}" for message, field in OF_METADATA}


STRUCTS: list[type[msgspec.Struct]] = [*request_bodies(), *bodies.OBJECTS, *request_structs(), *FRAMES, *PARAMETERS]


def unbounded(kind: Any) -> bool:
    """Whether values of this type can be of any size: not a flag, a choice, or an object with fields of its own."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct | bool | type(None)):
        return False
    if getattr(kind, "__origin__", None) is not None and "Literal" in str(kind.__origin__):
        return False
    inner = [argument for argument in get_args(kind) if isinstance(argument, type) or get_args(argument)]
    is_container = getattr(kind, "__origin__", None) in (list, dict)
    return is_container or (any(map(unbounded, inner)) if inner else kind in (str, int, float, bytes))


@pytest.mark.parametrize("body", STRUCTS)
def test_every_field_of_a_body_has_a_limit(body: type[msgspec.Struct]) -> None:
    for name, hint in hints_of(body).items():
        assert (name in limits_of(body)) == (unbounded(hint) and not choices_in(hint)), name


def test_a_field_of_the_admin_rpc_has_the_same_limit_in_every_request() -> None:
    limits: dict[str, set[Limit]] = {}
    for struct in request_structs():
        for name, limit in limits_of(struct).items():
            limits.setdefault(name, set()).add(limit)
    assert not {name: of_name for name, of_name in limits.items() if len(of_name) > 1}


def test_every_row_says_why_and_how_much() -> None:
    rows: dict[str, Limit] = {**binary.BINARY, **binary.BY_FIELD, **metadata.METADATA}
    rows |= rows_of(STRUCTS) | {bare.name: bare.limit for bare in bodies.BARE}
    for name, row in rows.items():
        numbers = (row.bytes_max, row.count_max, row.total_bytes_max, row.minimum, row.maximum, row.setting or None)
        assert row.why and any(number is not None for number in numbers), name
