"""The schema registry: versions of topics' schemas, as producers, consumers and the admin API use them.

A partitioned topic has one schema for all its partitions. Versions are kept in MetaStore and read for each request; comparing
schemas runs in a thread. `core/schemas/` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from messaging.broker.core.schemas import registry
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
from messaging.broker.core.schemas.strategies import DEFAULT, Strategy
from messaging.broker.runtime.topics.services import refusal_of
from messaging.errors import Conflict, IncompatibleSchema, InvalidValue, PreconditionFailed, TopicNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import PERSISTENT, TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import MetaConflict

TRIES = 5  # of a registration that others overtake

_decoder = msgspec.msgpack.Decoder(SchemaVersion)
Policy = Callable[[str, TopicName], Any]


def schema_of(message: pb.Schema) -> Schema:
    """Raises `InvalidValue` for an unknown type."""
    try:
        kind = SchemaType(message.type)
    except ValueError:
        raise InvalidValue(f"schema type {message.type} is unknown: use one of {_TYPES}") from None
    return Schema(kind, message.schema_data, {pair.key: pair.value for pair in message.properties}, message.name)


def message_of(schema: Schema) -> pb.Schema:
    message = pb.Schema(name=schema.name, schema_data=schema.data, type=int(schema.type))
    for key, value in schema.properties.items():
        message.properties.add(key=key, value=value)
    return message


def _key(name: TopicName) -> str:
    """All partitions of a topic have one schema, and the non-persistent topic of the same name shares it, as in Pulsar."""
    return str(name.base._replace(domain=PERSISTENT))


class TopicSchemas:
    """`policy` gives the effective value of a policy of a topic. `names_max`: names in a namespace that may have a schema, whether
    such topics exist or not. Every method may raise `NotReady` and `StorageFailed`."""

    def __init__(self, storage: Storage, policy: Policy, clock_ms: Callable[[], int], names_max: int) -> None:
        self._storage = storage
        self._policy = policy
        self._clock_ms = clock_ms
        self._names_max = names_max

    # --- asking

    async def versions(self, name: TopicName) -> list[SchemaVersion]:
        """All versions, deletions included, oldest first."""
        try:
            stored = await self._storage.meta.schema_versions(_key(name))
        except StoreError as error:
            raise refusal_of(error, f"the schema of {name.base} cannot be read") from error
        return [_decoder.decode(one) for one in stored]

    async def get(self, name: TopicName, version: int | None = None) -> SchemaVersion:
        """A version, or the latest. Raises `TopicNotFound` if there is none: the code that clients expect."""
        versions = await self.versions(name)
        if version is None:
            found = registry.latest(versions)
        else:
            found = versions[version] if 0 <= version < len(versions) and versions[version].schema is not None else None
        if found is None:
            which = "no schema" if version is None else f"no version {version} of its schema"
            raise TopicNotFound(f"topic {name.base} has {which}")
        return found

    async def find(self, name: TopicName, schema: Schema) -> SchemaVersion | None:
        """The version that equals `schema`, since the last deletion. Raises `IncompatibleSchema` for an invalid schema."""
        return await asyncio.to_thread(registry.find, await self.versions(name), schema)

    async def why_incompatible(self, name: TopicName, schema: Schema) -> str:
        """Why `schema` could not become the next version; "" if it could."""
        try:
            await self._check(await self.versions(name), schema, self.strategy(name), may_update=True)
        except IncompatibleSchema as error:
            return error.message
        return ""

    def strategy(self, name: TopicName) -> Strategy:
        """The effective one."""
        strategy = registry.strategy_of(str(self._policy("schema_compatibility", name)))
        return DEFAULT if strategy is Strategy.UNDEFINED else strategy

    # --- changing

    async def register(self, name: TopicName, schema: Schema, role: str, *, by_client: bool) -> SchemaVersion:
        """The version that `schema` has, or gets now. Raises `IncompatibleSchema`, `PreconditionFailed`."""
        may_update = not by_client or bool(self._policy("schema_auto_update", name))
        for _ in range(TRIES):
            versions = await self.versions(name)
            found = await self._check(versions, schema, self.strategy(name), may_update=may_update)
            if found is not None:
                return found
            if not versions:
                await self._check_room(name)
            new = SchemaVersion(len(versions), self._clock_ms(), schema, role)
            if await self._add(name, new):
                return new
        raise Conflict(f"the schema of {name.base} is being changed by too many requests at once: try again")

    async def delete(self, name: TopicName, role: str, *, force: bool) -> int:
        """Marks the schema as deleted, even if there is none yet; `force` removes all versions. Returns the version of the last
        deletion, -1 if nothing is left. Idempotent."""
        if force:
            try:
                await self._storage.meta.delete_schema_versions(self._storage.fence, _key(name))
            except StoreError as error:
                raise refusal_of(error, f"the schema of {name.base} cannot be deleted") from error
            return -1
        versions = await self.versions(name)
        if not versions:
            await self._check_room(name)
        elif registry.latest(versions) is None:
            return len(versions) - 1
        deletion = SchemaVersion(len(versions), self._clock_ms(), None, role)
        if not await self._add(name, deletion):
            raise Conflict(f"the schema of {name.base} was changed by another request: check it and try again")
        return deletion.version

    async def _add(self, name: TopicName, version: SchemaVersion) -> bool:
        """False if another request stored this version first."""
        record = msgspec.msgpack.encode(version)
        try:
            await self._storage.meta.add_schema_version(self._storage.fence, _key(name), version.version, record)
        except MetaConflict:
            return False
        except StoreError as error:
            raise refusal_of(error, f"the schema of {name.base} cannot be stored") from error
        return True

    async def _check_room(self, name: TopicName) -> None:
        namespace = str(name.namespace)
        try:
            held = len(await self._storage.meta.topics_with_schemas(namespace))
        except StoreError as error:
            raise refusal_of(error, f"the schemas of {namespace} cannot be read") from error
        if held >= self._names_max:
            raise PreconditionFailed(
                f"namespace {namespace} has schemas of {held} topics; topics_per_namespace_max = {self._names_max}: "
                f"delete schemas of topics that do not exist any more"
            )

    @staticmethod
    async def _check(
        versions: Sequence[SchemaVersion], schema: Schema, strategy: Strategy, *, may_update: bool
    ) -> SchemaVersion | None:
        """The version that `schema` has already; None if it may become the next one. Raises `IncompatibleSchema`."""

        def check() -> SchemaVersion | None:
            found = registry.find(versions, schema)
            if found is None:
                registry.check_new(versions, schema, strategy, may_update=may_update)
            return found

        return await asyncio.to_thread(check)

    # --- clients

    async def check_producer(self, name: TopicName, schema: Schema | None, role: str) -> int | None:
        """The version of a new producer's schema, registered if need be; None if it has none. Raises `IncompatibleSchema`."""
        if schema is not None and registry.has_schema(schema):
            return (await self.register(name, schema, role, by_client=True)).version
        if self._policy("schema_enforced", name) and registry.latest(await self.versions(name)) is not None:
            raise IncompatibleSchema(
                f"topic {name.base} has a schema, and producers without one are refused (schema_enforced): use the schema"
            )
        return None

    async def check_consumer(self, name: TopicName, schema: Schema | None, role: str, *, idle: bool) -> None:
        """Raises `IncompatibleSchema` if a consumer with `schema` cannot read the topic. `idle`: the topic has no messages and no
        clients; then a first schema may come from the consumer."""
        if schema is None or not registry.has_schema(schema):
            return
        versions = await self.versions(name)
        if registry.latest(versions) is not None:
            await asyncio.to_thread(registry.check_consumer, versions, schema, self.strategy(name))
        elif idle:
            await self.register(name, schema, role, by_client=True)
        else:
            raise IncompatibleSchema(
                f"topic {name.base} has messages or clients, and no schema to check the consumer's against: "
                f"register the schema with a producer or over the admin API"
            )


_TYPES = ", ".join(f"{kind.name} ({int(kind)})" for kind in SchemaType)
