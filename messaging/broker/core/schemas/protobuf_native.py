"""Protobuf schemas that clients describe by file descriptors: JSON with ``fileDescriptorSet`` (base64), ``rootMessageTypeName`` and
``rootFileDescriptorName``. As in Pulsar 4.0, two of them are compatible if their root message is the same."""

from __future__ import annotations

import base64
import binascii

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from messaging.broker.core.schemas.model import SchemaError


class _Data(msgspec.Struct):
    root: str = msgspec.field(name="rootMessageTypeName")
    root_file: str = msgspec.field(name="rootFileDescriptorName")
    files: str = msgspec.field(name="fileDescriptorSet")


def root_message(data: bytes) -> str:
    """The full name of the root message. Raises `SchemaError` if the descriptors do not contain it or cannot be read."""
    try:
        found = msgspec.json.decode(data, type=_Data)
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(found.files, validate=True))
    except (msgspec.DecodeError, binascii.Error, DecodeError, RecursionError) as error:
        raise SchemaError(f"the schema is not a valid Protobuf descriptor: {error}") from None
    names = {name for file in files.file if file.name == found.root_file for name in _messages(file)}
    if found.root not in names:
        raise SchemaError(f"the file {found.root_file!r} of the schema has no message {found.root!r}")
    return found.root


def _messages(file: descriptor_pb2.FileDescriptorProto) -> list[str]:
    level = [(f"{file.package}." if file.package else "", message) for message in file.message_type]
    names: list[str] = []
    while level:
        names += [prefix + message.name for prefix, message in level]
        level = [(f"{prefix}{message.name}.", inner) for prefix, message in level for inner in message.nested_type]
    return names
