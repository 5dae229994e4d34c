"""Schema commands of the binary protocol. Versions are 8 bytes on the wire; the first one is 8 zero bytes."""

from __future__ import annotations

from messaging.broker.core.schemas.model import Schema, SchemaType, encode_version
from messaging.broker.core.schemas.registry import has_schema
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topic_schemas import message_of, schema_of
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import IncompatibleSchema, TopicNotFound
from messaging.permissions.model import Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic


def given_schema(body: pb.Producer | pb.Subscribe) -> Schema | None:
    """None for a client that takes messages of any schema. What is given as NONE (bytes) is a schema like others, as in Pulsar:
    clients that mean none send none. Raises `InvalidValue` for an unknown type."""
    schema = schema_of(body.schema) if body.HasField("schema") else None
    return None if schema is not None and schema.type is SchemaType.AUTO_CONSUME else schema


def role_of(connection: Connection) -> str:
    return connection.principal.role if connection.principal is not None else ""


async def get_schema(service: Broker, connection: Connection, body: pb.GetSchema, resource: Resource) -> None:
    version: int | None = None
    if body.HasField("schema_version"):
        if len(body.schema_version) != 8:
            raise IncompatibleSchema(f"a schema version of {len(body.schema_version)} bytes was asked for: it has 8")
        version = int.from_bytes(body.schema_version, "big", signed=True)
    await service.require_namespace(resource.namespace)
    name, out = parse_topic(resource.topic), connection.out
    async with service.schemas.reading(name, version, out.takes_answers, deletions=True) as stored:
        schema = stored.schema or Schema(SchemaType.NONE)  # what is left after a deletion
        message = message_of(schema, f"{name.namespace}/{name.base.local}")
        answer = pb.GetSchemaResponse(request_id=body.request_id, schema=message, schema_version=encode_version(stored.version))
        connection.send(frames.command(pb.Command.GET_SCHEMA_RESPONSE, get_schema_response=answer))
        out.flush()
        out.count()  # from here on, the bytes that the peer has not read are charged


async def get_or_create_schema(service: Broker, connection: Connection, body: pb.GetOrCreateSchema, resource: Resource) -> None:
    await service.require_namespace(resource.namespace)
    name = parse_topic(resource.topic)
    if not await service.topics.exists(name) and await service.topics.partitioned.get(name.base) is None:
        raise TopicNotFound(f"topic {name} does not exist: open a producer or consumer of it first")
    schema, version = schema_of(body.schema), b""
    if has_schema(schema):  # Java asks for messages without one, too
        version = encode_version((await service.schemas.register(name, schema, role_of(connection), by_client=True)).version)
    answer = pb.GetOrCreateSchemaResponse(request_id=body.request_id, schema_version=version)
    connection.send(frames.command(pb.Command.GET_OR_CREATE_SCHEMA_RESPONSE, get_or_create_schema_response=answer))
