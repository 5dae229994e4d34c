"""Messages of Protocol Buffers, described by the descriptors of their file and of those that it imports, as by Pulsar's clients."""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError, EncodeError, Message

from messaging.client.schemas.schema import PROTOBUF_NATIVE_TYPE, Schema
from messaging.errors import InvalidValue
from messaging.json_types import decoder_of
from messaging.protocol import pulsar_pb2 as pb

M = TypeVar("M", bound=Message)


class _Definition(msgspec.Struct, rename="camel"):
    file_descriptor_set: bytes
    root_message_type_name: str


class Protobuf(Schema[M]):
    """`model`: a class that the compiler of Protocol Buffers generated. Raises `InvalidValue` for another."""

    def __init__(self, model: type[M]) -> None:
        if not isinstance(model, type) or not issubclass(model, Message):
            raise InvalidValue(f"{model!r} is not a generated class of Protocol Buffers")
        self._model = model
        descriptor = model.DESCRIPTOR
        files = descriptor_pb2.FileDescriptorSet()
        _collect(descriptor.file, set(), files)
        definition = {
            "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
            "rootMessageTypeName": descriptor.full_name,
            "rootFileDescriptorName": descriptor.file.name,
        }
        self.description = pb.Schema(name=descriptor.name, schema_data=msgspec.json.encode(definition), type=PROTOBUF_NATIVE_TYPE)

    @classmethod
    def described_by(cls, definition: bytes) -> Protobuf[Any]:
        """Of a topic's schema, with a class made for its messages. Raises `InvalidValue`."""
        from google.protobuf import descriptor_pool, message_factory  # only programs that do not know the class need them

        try:
            described = decoder_of(_Definition).decode(definition)
            pool = descriptor_pool.DescriptorPool()
            for file in descriptor_pb2.FileDescriptorSet.FromString(described.file_descriptor_set).file:
                pool.Add(file)
            return Protobuf(message_factory.GetMessageClass(pool.FindMessageTypeByName(described.root_message_type_name)))
        except (ValueError, KeyError, TypeError, DecodeError) as error:  # of msgspec and of the library
            raise InvalidValue(f"the schema that the message was written with is not of Protocol Buffers: {error}") from None

    def encode(self, value: M) -> bytes:
        if not isinstance(value, self._model):
            raise InvalidValue(f"a message of this producer is a {self._model.__name__}, not {type(value).__name__}")
        try:
            return value.SerializeToString()
        except EncodeError as error:
            raise InvalidValue(f"the {self._model.__name__} is not complete: {error}") from None

    def decode(self, payload: bytes) -> M:
        try:
            return self._model.FromString(payload)
        except DecodeError as error:
            raise InvalidValue(f"the message is not a {self._model.__name__}: {error}") from None


def _collect(file: Any, known: set[str], files: descriptor_pb2.FileDescriptorSet) -> None:
    """Imports before what imports them, as readers need them."""
    if file.name in known:
        return
    known.add(file.name)
    for dependency in file.dependencies:
        _collect(dependency, known, files)
    file.CopyToProto(files.file.add())
