"""The schema registry: versions of topics' schemas, as producers, consumers and the admin API use them.

A partitioned topic has one schema for all its partitions. Versions are kept in MetaStore and read for each request; comparing
schemas runs in a thread, a few at a time and in turn by tenant. `core/schemas/` decides.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.schemas import registry
from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
from messaging.broker.core.schemas.strategies import DEFAULT, Strategy
from messaging.broker.runtime.memory_turns import MemoryTurns
from messaging.broker.runtime.topics.limits.tenant_ceilings import StoredCeiling, reserved
from messaging.broker.runtime.topics.services import refusal_of
from messaging.errors import Conflict, IncompatibleSchema, InvalidValue, PreconditionFailed, TopicNotFound
from messaging.fairness.in_thread import in_thread
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import PERSISTENT, TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import MetaConflict

TRIES = 5  # of a registration that others overtake
ANSWERS_AT_ONCE, COMPARISONS_AT_ONCE = 4, 2  # of different tenants
DELETION_BYTES_MAX = 4096  # of the record of one, with the role of who asked for it
STORED_BYTES_MAX = 2 * registry.VERSIONS_BYTES_MAX  # with roles and times
# What is charged for each byte: a stored version is also decoded, and an answer encoded twice; a definition becomes objects.
ANSWER_COPIES, VERSION_COPIES, PARSED_COPIES = 4, 2, 4

T = TypeVar("T")
# Comparing holds Python's lock. So each thread rests three times as long as it worked: two of them leave half of it to all others.
RESTS = 3
_decoder = msgspec.msgpack.Decoder(SchemaVersion)
Policy = Callable[[str, TopicName], Any]


class Registration(NamedTuple):
    """`known`: the version exists; else it is the next one."""

    version: SchemaVersion
    known: bool


class Rests:
    """Of the thread that makes it."""

    def __init__(self) -> None:
        self._worked_s = time.thread_time()

    def rest(self) -> None:
        """Blocks."""
        worked_s, self._worked_s = self._worked_s, time.thread_time()
        time.sleep(RESTS * (self._worked_s - worked_s))


def schema_of(message: pb.Schema) -> Schema:
    """Raises `InvalidValue` for an unknown type."""
    try:
        kind = SchemaType(message.type)
    except ValueError:
        raise InvalidValue(f"schema type {message.type} is unknown: use one of {_TYPES}") from None
    return Schema(kind, message.schema_data, {pair.key: pair.value for pair in message.properties}, message.name)


def message_of(schema: Schema, name: str) -> pb.Schema:
    """`name`: a schema is named after its topic, whatever its client called it."""
    message = pb.Schema(name=name, schema_data=schema.data, type=int(schema.type))
    for key, value in schema.properties.items():
        message.properties.add(key=key, value=value)
    return message


def _decoded(stored: list[bytes]) -> list[SchemaVersion]:
    return [_decoder.decode(record) for record in stored]


def _key(name: TopicName) -> str:
    """All partitions of a topic have one schema, and the non-persistent topic of the same name shares it, as in Pulsar."""
    return str(name.base._replace(domain=PERSISTENT))


class TopicSchemas:
    """`policy` gives the effective value of a policy of a topic. `names_max`: names in a namespace that may have a schema, whether
    such topics exist or not. Every method may raise `NotReady` and `StorageFailed`.

    What is read is charged to the topic's tenant before: to `egress` for an answer, to `catch_up` for a comparison."""

    def __init__(
        self,
        storage: Storage,
        policy: Policy,
        clock_ms: Callable[[], int],
        names_max: int,
        ceiling: StoredCeiling,
        memory_limiter: MemoryLimiter,
    ) -> None:
        self._storage = storage
        self._policy = policy
        self._clock_ms = clock_ms
        self._names_max = names_max
        self._ceiling = ceiling
        self._memory_limiter = memory_limiter
        self.on_judged: list[Callable[[TopicName, str, str], None]] = []  # of clients: which, and why it was refused, or ""
        self._answers = MemoryTurns(ANSWERS_AT_ONCE)
        self._comparisons = MemoryTurns(COMPARISONS_AT_ONCE)

    # --- reading

    @asynccontextmanager
    async def reading(
        self,
        name: TopicName,
        version: int | None = None,
        ready: Callable[[], bool] = lambda: True,
        *,
        deletions: bool = False,
    ) -> AsyncIterator[SchemaVersion]:
        """A version, or the latest, to be answered inside this context: no other is read for it but a deletion. Raises
        `TopicNotFound` if there is none or the schema is deleted, the code that clients expect, and what `ready` raises (see
        `MemoryTurns`). `deletions`: the latest may be one."""
        sizes = await self._sizes(name)
        number = len(sizes) - 1 if version is None else version
        if 0 <= number < len(sizes):
            size_bytes = ANSWER_COPIES * sizes[number]
            async with self._answers.turn(self._memory_limiter.egress, name.tenant, size_bytes, ready):
                record = await self._stored(self._storage.meta.schema_version(_key(name), number), name)
                stored = None if record is None else _decoder.decode(record)
                shown = stored is not None and (stored.schema is not None or (deletions and version is None))
                if stored is not None and shown and not await self._deleted_after(number, sizes, name):
                    yield stored
                    return
        which = "no schema" if version is None else f"no version {version} of its schema"
        raise TopicNotFound(f"topic {name.base} has {which}")

    async def _deleted_after(self, number: int, sizes: list[int], name: TopicName) -> bool:
        """Whether the schema was deleted, with this version, and not registered since."""
        last = len(sizes) - 1
        if number == last or sizes[last] > DELETION_BYTES_MAX:
            return False
        record = await self._stored(self._storage.meta.schema_version(_key(name), last), name)
        return record is not None and _decoder.decode(record).schema is None

    @asynccontextmanager
    async def reading_all(self, name: TopicName) -> AsyncIterator[list[SchemaVersion]]:
        """All versions, deletions included, oldest first, to be answered inside this context."""
        size_bytes = ANSWER_COPIES * sum(await self._sizes(name))
        async with self._answers.turn(self._memory_limiter.egress, name.tenant, size_bytes):
            yield await in_thread(_decoded, await self._stored(self._storage.meta.schema_versions(_key(name)), name))

    @asynccontextmanager
    async def _comparing(self, name: TopicName, schema: Schema) -> AsyncIterator[list[bytes]]:
        """All versions as they are stored, to be compared with `schema` inside this context."""
        size_bytes = VERSION_COPIES * sum(await self._sizes(name)) + PARSED_COPIES * schema.size_bytes
        async with self._comparisons.turn(self._memory_limiter.catch_up, name.tenant, size_bytes):
            yield await self._stored(self._storage.meta.schema_versions(_key(name)), name)

    async def _sizes(self, name: TopicName) -> list[int]:
        sizes = await self._stored(self._storage.meta.schema_version_sizes(_key(name)), name)
        if sum(sizes) > STORED_BYTES_MAX:
            raise PreconditionFailed(
                f"the versions of the schema of {name.base} have {sum(sizes)} bytes, more than the {STORED_BYTES_MAX} that are "
                f"read: delete the topic's schema with force"
            )
        return sizes

    async def _stored(self, reading: Awaitable[T], name: TopicName) -> T:
        try:
            return await reading
        except StoreError as error:
            raise refusal_of(error, f"the schema of {name.base} cannot be read") from error

    # --- asking

    async def has_schema(self, name: TopicName) -> bool:
        try:
            async with self.reading(name):
                return True
        except TopicNotFound:
            return False

    async def find(self, name: TopicName, schema: Schema) -> SchemaVersion | None:
        """The version that equals `schema`, since the last deletion. Raises `IncompatibleSchema` for an invalid schema."""
        async with self._comparing(name, schema) as stored:
            return await in_thread(lambda: registry.find(_decoded(stored), schema, Comparison(Rests().rest)))

    async def why_incompatible(self, name: TopicName, schema: Schema) -> str:
        """Why `schema` could not become the next version; "" if it could."""
        try:
            await self._registration(name, schema, "", may_update=True)
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
            registration = await self._registration(name, schema, role, may_update=may_update)
            if registration.known:
                return registration.version
            if not registration.version.version:
                await self._check_room(name)
            with suppress(MetaConflict):
                async with self._ceiling.room(name):
                    await self._add(name, registration.version)
                return registration.version
        raise Conflict(f"the schema of {name.base} is being changed by too many requests at once: try again")

    async def delete(self, name: TopicName, role: str, *, force: bool) -> int:
        """Marks the schema as deleted, even if there is none yet; `force` removes all versions. Returns the version of the last
        deletion, -1 if nothing is left. Idempotent."""
        if force:
            try:
                await self._storage.meta.delete_schema_versions(self._storage.fence, _key(name))
            except StoreError as error:
                raise refusal_of(error, f"the schema of {name.base} cannot be deleted") from error
            self._ceiling.counts.forget(name.tenant)
            return -1
        count = len(await self._sizes(name))
        if not count:
            await self._check_room(name)
        elif not await self.has_schema(name):
            return count - 1
        deletion = SchemaVersion(count, self._clock_ms(), None, role)
        try:
            async with reserved(self._ceiling.counts, name.tenant, str(name.namespace), 1):  # never refused: it leads to room
                await self._add(name, deletion)
        except MetaConflict:
            raise Conflict(f"the schema of {name.base} was changed by another request: check it and try again") from None
        return deletion.version

    async def _add(self, name: TopicName, version: SchemaVersion) -> None:
        """Raises `MetaConflict` if another request stored this version first."""
        record = msgspec.msgpack.encode(version)
        try:
            await self._storage.meta.add_schema_version(self._storage.fence, _key(name), version.version, record)
        except StoreError as error:
            raise refusal_of(error, f"the schema of {name.base} cannot be stored") from error

    async def _check_room(self, name: TopicName) -> None:
        namespace = str(name.namespace)
        try:
            topics = len(await self._storage.meta.topics_with_schemas(namespace))
        except StoreError as error:
            raise refusal_of(error, f"the schemas of {namespace} cannot be read") from error
        if topics >= self._names_max:
            raise PreconditionFailed(
                f"namespace {namespace} has schemas of {topics} topics; topics_per_namespace_max = {self._names_max}: "
                f"delete schemas of topics that do not exist any more"
            )

    async def _registration(self, name: TopicName, schema: Schema, role: str, *, may_update: bool) -> Registration:
        """The version that `schema` has already, or the next one, which it may become. Raises `IncompatibleSchema`."""
        strategy, now_ms = self.strategy(name), self._clock_ms()

        def decide() -> Registration:
            versions, comparison = _decoded(stored), Comparison(Rests().rest)
            known = registry.find(versions, schema, comparison)
            if known is not None:
                return Registration(known, known=True)
            registry.check_new(versions, schema, strategy, comparison, may_update=may_update)
            return Registration(registry.next_version(versions, schema, now_ms, role, comparison), known=False)

        async with self._comparing(name, schema) as stored:
            return await in_thread(decide)

    # --- clients

    async def check_producer(self, name: TopicName, schema: Schema | None, role: str, host: str = "") -> int | None:
        """The version of a new producer's schema, registered if need be; None if it has none. Raises `IncompatibleSchema`. `host`:
        where it runs, by which and by `role` it is known again."""
        with self._telling(name, f"producer {role} {host}"):
            if schema is not None:
                return (await self.register(name, schema, role, by_client=True)).version
            if self._policy("schema_enforced", name) and await self.has_schema(name):
                raise IncompatibleSchema(
                    f"topic {name.base} has a schema, and producers without one are refused (schema_enforced): use the schema"
                )
        return None

    @contextmanager
    def _telling(self, name: TopicName, client: str) -> Iterator[None]:
        try:
            yield
        except IncompatibleSchema as error:
            for tell in self.on_judged:
                tell(name, client, error.message)
            raise
        for tell in self.on_judged:
            tell(name, client, "")

    async def check_consumer(self, name: TopicName, schema: Schema | None, role: str, host: str = "", *, idle: bool) -> int | None:
        """The version that `schema` is; None if it is none of them. Raises `IncompatibleSchema` if a consumer with it cannot read
        the topic. `host` as of a producer. `idle`: the topic has no messages and no clients; then a first schema may come from the
        consumer."""
        with self._telling(name, f"consumer {role} {host}"):
            return None if schema is None else await self._check_consumer(name, schema, role, idle=idle)

    async def _check_consumer(self, name: TopicName, schema: Schema, role: str, *, idle: bool) -> int | None:
        strategy = self.strategy(name)

        def check() -> tuple[bool, int | None]:
            """Whether the topic has a schema at all, and which version this is."""
            versions = _decoded(stored)
            if registry.latest(versions) is None:
                return False, None
            version = registry.check_consumer(versions, schema, strategy, Comparison(Rests().rest))
            return True, None if version is None else version.version

        async with self._comparing(name, schema) as stored:
            fits, version = await in_thread(check)
        if fits:
            return version
        if idle:
            return (await self.register(name, schema, role, by_client=True)).version
        raise IncompatibleSchema(
            f"topic {name.base} has messages or clients, and no schema to check the consumer's against: "
            f"register the schema with a producer or over the admin API"
        )


_TYPES = ", ".join(f"{kind.name} ({int(kind)})" for kind in SchemaType)
