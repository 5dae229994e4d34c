"""Admin RPC: schemas of topics."""

from __future__ import annotations

from messaging.adminrpc.methods import SCHEMAS_ADD, SCHEMAS_CHECK, SCHEMAS_DELETE, SCHEMAS_FIND, SCHEMAS_GET, SCHEMAS_LIST
from messaging.adminrpc.schemas import (
    SchemaCompatible,
    SchemaDelete,
    SchemaGet,
    SchemaGiven,
    SchemaStored,
    SchemaVersionAnswer,
    SchemaVersions,
)
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topic_schemas import TopicSchemas
from messaging.errors import InvalidValue


class SchemaHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def _schemas(self) -> TopicSchemas:
        return self._broker.schemas

    @answers(SCHEMAS_GET)
    async def get(self, request: SchemaGet) -> SchemaVersions:
        async with self._schemas.reading(await topic_name(self._broker, request.topic), request.version) as version:
            return SchemaVersions(versions=_stored([version]))

    @answers(SCHEMAS_LIST)
    async def list_versions(self, request: TopicRef) -> SchemaVersions:
        async with self._schemas.reading_all(await topic_name(self._broker, request.topic)) as versions:
            return SchemaVersions(versions=_stored(versions))

    @answers(SCHEMAS_ADD)
    async def add(self, request: SchemaGiven) -> SchemaVersionAnswer:
        name = await topic_name(self._broker, request.topic)
        version = await self._schemas.register(name, _given(request), request.role, by_client=False)
        return SchemaVersionAnswer(version=version.version)

    @answers(SCHEMAS_FIND)
    async def find(self, request: SchemaGiven) -> SchemaVersionAnswer:
        version = await self._schemas.find(await topic_name(self._broker, request.topic), _given(request))
        return SchemaVersionAnswer(version=-1 if version is None else version.version)

    @answers(SCHEMAS_CHECK)
    async def check(self, request: SchemaGiven) -> SchemaCompatible:
        name = await topic_name(self._broker, request.topic)
        why_not = await self._schemas.why_incompatible(name, _given(request))
        return SchemaCompatible(strategy=str(self._schemas.strategy(name)), why_not=why_not)

    @answers(SCHEMAS_DELETE)
    async def delete(self, request: SchemaDelete) -> SchemaVersionAnswer:
        name = await topic_name(self._broker, request.topic)
        return SchemaVersionAnswer(version=await self._schemas.delete(name, request.role, force=request.force))


def _given(request: SchemaGiven) -> Schema:
    """Raises `InvalidValue` for an unknown type. BYTES is what the admin API calls the type that has no schema."""
    try:
        kind = SchemaType.NONE if request.type == "BYTES" else SchemaType[request.type]
    except KeyError:
        names = ", ".join(schema_type.name for schema_type in SchemaType)
        raise InvalidValue(f"schema type {request.type[:40]!r} is unknown: use one of {names}") from None
    return Schema(kind, request.data, request.properties)


def _stored(versions: list[SchemaVersion]) -> list[SchemaStored]:
    """Those since the last deletion."""
    since = max((at + 1 for at, stored in enumerate(versions) if stored.schema is None), default=0)
    return [
        SchemaStored(
            version=version.version,
            type=version.schema.type.name,
            data=version.schema.data,
            properties=version.schema.properties,
            created_ms=version.created_ms,
        )
        for version in versions[since:]
        if version.schema is not None
    ]
