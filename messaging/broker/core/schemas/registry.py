"""The versions of one topic's schema, and what registering or using a schema does to them. Decisions only: the caller stores."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import SCHEMALESS, Schema, SchemaError, SchemaVersion
from messaging.broker.core.schemas.strategies import Strategy, why_bad_default, why_incompatible
from messaging.errors import IncompatibleSchema, InvalidSchema, InvalidValue
from messaging.limits.sizes import SCHEMA_BYTES_MAX

# Of one topic. They bound the memory and the work of comparing with all of them.
VERSIONS_MAX = 1_000
VERSIONS_BYTES_MAX = 4 << 20

# Under these strategies consumers are checked as readers of the latest version only.
READERS_OF_LATEST = frozenset({Strategy.UNDEFINED, Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL})


def current(versions: Sequence[SchemaVersion]) -> list[Schema]:
    """The schemas since the last deletion, oldest first."""
    since = max((at + 1 for at, version in enumerate(versions) if version.schema is None), default=0)
    return [version.schema for version in versions[since:] if version.schema is not None]


def latest(versions: Sequence[SchemaVersion]) -> SchemaVersion | None:
    """None if there is no schema, or it was deleted."""
    return versions[-1] if versions and versions[-1].schema is not None else None


def find(versions: Sequence[SchemaVersion], schema: Schema, comparison: Comparison) -> SchemaVersion | None:
    """The newest version since the last deletion that has this schema. Raises `InvalidSchema`."""
    form = _valid_form(schema, comparison)
    for version in reversed(versions):
        if version.schema is None:
            return None
        if version.schema.type is schema.type and _form(version, version.schema, comparison) == form:
            return version
    return None


def check_new(
    versions: Sequence[SchemaVersion], schema: Schema, strategy: Strategy, comparison: Comparison, *, may_update: bool = True
) -> None:
    """Raises `IncompatibleSchema` if `schema`, which is none of `versions`, may not become the next one. `may_update`: whether
    clients may register versions after the first."""
    _valid_form(schema, comparison)
    earlier = current(versions)
    if earlier and not may_update:
        raise IncompatibleSchema("clients may not register new versions of the schema (schema_auto_update): use the admin API")
    if len(versions) >= VERSIONS_MAX or sum(map(_size_bytes, versions)) + schema.size_bytes > VERSIONS_BYTES_MAX:
        raise IncompatibleSchema(
            f"the schema has {len(versions)} versions; {VERSIONS_MAX} with {VERSIONS_BYTES_MAX} bytes in all are allowed, names "
            f"and properties included: delete the topic's schema with force, or use another topic"
        )
    if earlier and (why := _why_not_next(strategy, schema, earlier, comparison)):
        raise IncompatibleSchema(f"the schema is not compatible: {why}")


def check_consumer(
    versions: Sequence[SchemaVersion], schema: Schema, strategy: Strategy, comparison: Comparison
) -> SchemaVersion | None:
    """The version that `schema` is, if it is one. Raises `IncompatibleSchema` if a consumer with it may not read the topic, which
    has a schema."""
    version = find(versions, schema, comparison)
    if version is not None:
        return version
    applied = Strategy.BACKWARD if strategy in READERS_OF_LATEST else strategy
    if why := _why_incompatible(applied, schema, current(versions), comparison):
        raise IncompatibleSchema(f"the consumer's schema is not compatible: {why}")
    return None


def next_version(
    versions: Sequence[SchemaVersion], schema: Schema, created_ms: int, role: str, comparison: Comparison
) -> SchemaVersion:
    """Of a schema that may become the next one."""
    return SchemaVersion(len(versions), created_ms, schema, role, comparison.form_of(schema))


def has_schema(schema: Schema | None) -> bool:
    """Whether a client that sends this has a schema at all. Bytes are none."""
    return schema is not None and schema.type not in SCHEMALESS


def strategy_of(text: str) -> Strategy:
    """Raises `InvalidValue`."""
    try:
        return Strategy(text)
    except ValueError:
        raise InvalidValue(f"{text[:40]!r} is no schema compatibility strategy: use one of {', '.join(Strategy)}") from None


def _why_not_next(strategy: Strategy, schema: Schema, earlier: list[Schema], comparison: Comparison) -> str:
    try:
        bad_default = why_bad_default(schema, comparison)
    except SchemaError as error:
        return str(error)
    return bad_default or _why_incompatible(strategy, schema, earlier, comparison)


def _why_incompatible(strategy: Strategy, schema: Schema, earlier: list[Schema], comparison: Comparison) -> str:
    try:
        return why_incompatible(strategy, schema, earlier, comparison)
    except SchemaError as error:
        return str(error)


def _valid_form(schema: Schema, comparison: Comparison) -> bytes:
    if schema.size_bytes > SCHEMA_BYTES_MAX:
        raise InvalidSchema(
            f"the schema has {schema.size_bytes} bytes with its name and properties; at most {SCHEMA_BYTES_MAX} are allowed"
        )
    try:
        comparison.check_valid(schema)
        return comparison.form_of(schema)
    except SchemaError as error:
        raise InvalidSchema(str(error)) from None


def _form(version: SchemaVersion, schema: Schema, comparison: Comparison) -> bytes:
    """Empty for one that is not valid by the rules of today."""
    try:
        return version.form or comparison.form_of(schema)
    except SchemaError:
        return b""


def _size_bytes(version: SchemaVersion) -> int:
    return version.schema.size_bytes if version.schema is not None else 0
