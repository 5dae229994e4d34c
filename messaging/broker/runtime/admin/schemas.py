"""Admin RPC: schemas of topics."""

from __future__ import annotations

from messaging.adminrpc import schema
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
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

    async def get(self, request: schema.SchemaGet) -> schema.SchemaVersions:
        async with self._schemas.reading(await topic_name(self._broker, request.topic), request.version) as version:
            return schema.SchemaVersions(versions=_stored([version]))

    async def list_versions(self, request: schema.TopicRef) -> schema.SchemaVersions:
        async with self._schemas.reading_all(await topic_name(self._broker, request.topic)) as versions:
            return schema.SchemaVersions(versions=_stored(versions))

    async def add(self, request: schema.SchemaGiven) -> schema.SchemaVersionAnswer:
        name = await topic_name(self._broker, request.topic)
        found = await self._schemas.register(name, _given(request), request.role, by_client=False)
        return schema.SchemaVersionAnswer(version=found.version)

    async def find(self, request: schema.SchemaGiven) -> schema.SchemaVersionAnswer:
        found = await self._schemas.find(await topic_name(self._broker, request.topic), _given(request))
        return schema.SchemaVersionAnswer(version=-1 if found is None else found.version)

    async def check(self, request: schema.SchemaGiven) -> schema.SchemaCompatible:
        name = await topic_name(self._broker, request.topic)
        why_not = await self._schemas.why_incompatible(name, _given(request))
        return schema.SchemaCompatible(strategy=str(self._schemas.strategy(name)), why_not=why_not)

    async def delete(self, request: schema.SchemaDelete) -> schema.SchemaVersionAnswer:
        name = await topic_name(self._broker, request.topic)
        return schema.SchemaVersionAnswer(version=await self._schemas.delete(name, request.role, force=request.force))


def _given(request: schema.SchemaGiven) -> Schema:
    """Raises `InvalidValue` for an unknown type. BYTES is what the admin API calls the type that has no schema."""
    try:
        kind = SchemaType.NONE if request.type == "BYTES" else SchemaType[request.type]
    except KeyError:
        names = ", ".join(one.name for one in SchemaType)
        raise InvalidValue(f"schema type {request.type[:40]!r} is unknown: use one of {names}") from None
    return Schema(kind, request.data, request.properties)


def _stored(versions: list[SchemaVersion]) -> list[schema.SchemaStored]:
    """Those since the last deletion."""
    since = max((at + 1 for at, one in enumerate(versions) if one.schema is None), default=0)
    return [
        schema.SchemaStored(
            version=one.version,
            type=one.schema.type.name,
            data=one.schema.data,
            properties=one.schema.properties,
            created_ms=one.created_ms,
        )
        for one in versions[since:]
        if one.schema is not None
    ]
