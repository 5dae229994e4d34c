"""Protobuf schemas that clients describe by file descriptors: JSON with ``fileDescriptorSet`` (base64), ``rootMessageTypeName`` and
``rootFileDescriptorName``. As in Pulsar 4.0, two of them are compatible if their root message is the same."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from messaging.broker.core.schemas.model import SchemaError
from messaging.json_types import decoder_of

_Descriptor = TypeVar("_Descriptor")
LOOKS_MAX = 10_000  # files and messages that are looked at for the root message


class _Data(msgspec.Struct):
    root: str = msgspec.field(name="rootMessageTypeName")
    root_file: str = msgspec.field(name="rootFileDescriptorName")
    files: str = msgspec.field(name="fileDescriptorSet")


def root_message(data: bytes) -> str:
    """The full name of the root message. Raises `SchemaError` if the descriptors do not contain it or cannot be read."""
    try:
        described = decoder_of(_Data).decode(data)
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(described.files, validate=True))
    except (msgspec.DecodeError, binascii.Error, DecodeError, RecursionError) as error:
        raise SchemaError(f"the schema is not a valid Protobuf descriptor: {error}") from None
    look = _Looks()
    roots = [file for file in look.at(files.file) if file.name == described.root_file]
    if not any(look.found(described.root, file) for file in roots):
        raise SchemaError(f"the file {described.root_file!r} of the schema has no message {described.root!r}")
    return described.root


class _Looks:
    def __init__(self) -> None:
        self._left = LOOKS_MAX

    def found(self, name: str, file: descriptor_pb2.FileDescriptorProto) -> bool:
        """Whether the file has the message. Looks only into messages that it may be nested in."""
        level = [(f"{file.package}." if file.package else "", file.message_type)]
        while level:
            around, level = level, []
            for prefix, messages in around:
                for message in self.at(messages):
                    full_name = prefix + message.name
                    if full_name == name:
                        return True
                    if name.startswith(f"{full_name}."):
                        level.append((f"{full_name}.", message.nested_type))
        return False

    def at(self, descriptors: Sequence[_Descriptor]) -> Iterator[_Descriptor]:
        """Raises `SchemaError`."""
        self._left -= len(descriptors)
        if self._left < 0:
            raise SchemaError(f"the schema has more than {LOOKS_MAX} files and messages: use a smaller one")
        return iter(descriptors)
