"""Commands of the binary protocol made from their schema: the shortest valid one, and where in it a value can be put."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from messaging.limits import binary
from messaging.limits.model import Limit
from messaging.protocol import pulsar_pb2 as pb

Path = tuple[FieldDescriptor, ...]  # from the command down to one field
NUMBERS = frozenset(
    {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64}
)
DEPTH_MAX = 3  # of a message that holds itself


def client_bodies() -> list[FieldDescriptor]:
    """The fields of `Command` that a client fills: one for each kind of command that it may send."""
    return [
        cast(FieldDescriptor, field)
        for field in pb.Command.DESCRIPTOR.fields
        if field.message_type is not None and field.message_type.name not in binary.ANSWERS
    ]


def kind_of(body: FieldDescriptor) -> int:
    return pb.Command.Type.Value(body.name.upper())


def empty(body: FieldDescriptor) -> pb.Command:
    """A command of this kind with every field that it must have."""
    command = pb.Command(type=kind_of(body))  # type: ignore[arg-type]
    fill(getattr(command, body.name))
    getattr(command, body.name).SetInParent()
    return command


def fill(message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not field.is_repeated:
            if field.message_type is not None:
                fill(getattr(message, field.name))
                getattr(message, field.name).SetInParent()
            elif not message.HasField(field.name):
                setattr(message, field.name, field.default_value if field.enum_type is None else field.enum_type.values[0].number)


def paths(kind: Descriptor, above: Path = ()) -> Iterator[Path]:
    """To every field below a message, through messages and lists of them."""
    for field in kind.fields:
        path = (*above, field)
        yield path
        if (
            field.message_type is not None
            and [descriptor.message_type for descriptor in path].count(field.message_type) < DEPTH_MAX
        ):
            yield from paths(field.message_type, path)


def limit_of(field: FieldDescriptor) -> Limit | None:
    return binary.limit_of(field.containing_type.name, field.name) if field.containing_type is not None else None


def limit_at(path: Path) -> Limit | None:
    """Of the field at the end of `path`. A pair of properties is held against the row of those properties."""
    field, above = path[-1], limit_of(path[-2]) if len(path) > 1 else None
    if above is not None and field.containing_type is not None and field.containing_type.name == "KeyValue":
        return above._replace(count_max=None, total_bytes_max=None)
    return limit_of(field)


def put(message: Message, path: Path, value: Any) -> None:
    """Sets the field at the end of `path`; a list on the way gets one element. A list of values replaces what is there."""
    for field in path[:-1]:
        inner = getattr(message, field.name)
        message = inner.add() if field.is_repeated else inner
        message.SetInParent()
        fill(message)
    last = path[-1]
    if not last.is_repeated:
        setattr(message, last.name, value)
        return
    values = getattr(message, last.name)
    del values[:]
    values.extend(value)


def sized(field: FieldDescriptor, size: int) -> str | bytes:
    return "x" * size if field.type == FieldDescriptor.TYPE_STRING else b"x" * size


def at_and_over(field: FieldDescriptor, limit: Limit) -> Iterator[tuple[str, Any, Any]]:
    """What is tried, a value exactly at a limit of the field, and one that is one over it."""
    if field.is_repeated:
        yield from _lists(field, limit)
    elif limit.bytes_max is not None and field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        yield "size", sized(field, limit.bytes_max), sized(field, limit.bytes_max + 1)
    elif field.type in NUMBERS:
        if limit.maximum is not None:
            yield "maximum", limit.maximum, limit.maximum + 1
        if limit.minimum is not None and field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64):
            yield "minimum", limit.minimum, limit.minimum - 1


def _lists(field: FieldDescriptor, limit: Limit) -> Iterator[tuple[str, Any, Any]]:
    kind, count = field.message_type, limit.count_max
    if kind is None:
        if count is not None:
            yield "count", [0] * count, [0] * (count + 1)
        return
    element = getattr(pb, kind.name)()
    fill(element)
    if count is not None:
        yield "count", [element] * count, [element] * (count + 1)
    if kind.name == "KeyValue" and limit.bytes_max is not None and limit.total_bytes_max is not None:
        for part in ("key", "value"):
            texts = [{"key": "", "value": ""} | {part: "x" * (limit.bytes_max + more)} for more in (0, 1)]
            yield part, [pb.KeyValue(**texts[0])], [pb.KeyValue(**texts[1])]
        half = pb.KeyValue(key="x" * (limit.bytes_max // 2), value="x" * (limit.bytes_max // 2))
        full = [half] * (limit.total_bytes_max // limit.bytes_max)
        yield "total", full, [*full, pb.KeyValue(key="x", value="")]
