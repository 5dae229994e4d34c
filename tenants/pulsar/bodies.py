"""Bodies of requests to Pulsar's admin API: objects, and those that are a single value; each with its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from messaging.errors import PreconditionFailed
from messaging.limits.model import Limit
from messaging.limits.rest import BODY_BYTES_MAX, CLUSTERS, LEDGER_ID, PROPERTIES, PULSAR_PARTITIONS, ROLES, SCHEMA_TYPE, TOPIC
from messaging.limits.sizes import (
    BATCH_MESSAGES_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    PARTITIONS_MAX,
    ROLES_MAX,
    TOPIC_BYTES_MAX,
)
from messaging.policies.isolation import EXPRESSION_BYTES_MAX, EXPRESSIONS_MAX
from messaging.protocol.bundles import BUNDLES_MAX

T_co = TypeVar("T_co", covariant=True)

_ACTIONS = Limit("there are six actions", bytes_max=64, count_max=16)
_COUNT_OR_UNLIMITED = Limit("exactly representable in JSON; -1 is unlimited", minimum=-1, maximum=2**53 - 1)
_SCHEMA = Limit("a quarter of a request body; clients of the binary protocol may send more", bytes_max=BODY_BYTES_MAX // 4)
_GRANTED_ROLES = Limit(
    "each is granted or restricted", bytes_max=2 * NAME_BYTES_MAX + 1, count_max=ROLES_MAX, error=PreconditionFailed
)
_GRANTED_TOPICS = Limit("each is granted", bytes_max=TOPIC_BYTES_MAX, count_max=ROLES_MAX, error=PreconditionFailed)
_RESTRICTED = Limit("each is restricted", bytes_max=NAME_BYTES_MAX, count_max=ROLES_MAX, error=PreconditionFailed)

CountOrUnlimited = Annotated[int, _COUNT_OR_UNLIMITED]
Roles = Annotated[list[str], ROLES]
Clusters = Annotated[list[str], CLUSTERS]
Properties = Annotated[dict[str, str], PROPERTIES]
LedgerId = Annotated[int, LEDGER_ID]
Expressions = Annotated[list[str], Limit("each is matched with names", bytes_max=EXPRESSION_BYTES_MAX, count_max=EXPRESSIONS_MAX)]


class TenantInfo(msgspec.Struct, rename="camel"):
    admin_roles: Roles | None = None
    allowed_clusters: Clusters | None = None


class BundlesData(msgspec.Struct, rename="camel"):
    """`boundaries` are counted, so that `num_bundles` is read without them alone."""

    boundaries: Annotated[list[str], Limit("one more than bundles", bytes_max=16, count_max=BUNDLES_MAX + 1)] | None = None
    num_bundles: Annotated[int, Limit("32 bits; how many there may be is checked", minimum=-(2**31), maximum=2**31 - 1)] = 0


class GivenPermissions(msgspec.Struct):
    namespace_auth: Annotated[dict[str, list[str]], _GRANTED_ROLES] | None = None
    destination_auth: Annotated[dict[str, dict[str, list[str]]], _GRANTED_TOPICS] | None = None
    subscription_auth_roles: Annotated[dict[str, list[str]], _RESTRICTED] | None = None


class CreationPolicies(msgspec.Struct):
    """The fields of a Policies object that are no policies of ours."""

    auth_policies: GivenPermissions | None = None
    bundles: BundlesData | None = None
    replication_clusters: Clusters | None = None
    cluster_that_can_delete: Annotated[str, Limit("the name of a cluster", bytes_max=256)] | None = msgspec.field(
        default=None, name="clusterThatCanDeleteNamespace"
    )


class BacklogQuota(msgspec.Struct, rename="camel"):
    """`limit` is what old tools call `limitSize`."""

    limit_size: CountOrUnlimited | None = None
    limit: CountOrUnlimited | None = None
    limit_time: CountOrUnlimited | None = None
    policy: Annotated[str, Limit("one of three values", bytes_max=64)] | None = None


class PartitionedTopicMetadata(msgspec.Struct):
    partitions: Annotated[int, PULSAR_PARTITIONS]
    properties: Properties | None = None


class SchemaPayload(msgspec.Struct):
    """`schema`: the definition as text; of KEY_VALUE, a JSON object with ``key`` and ``value``."""

    type: Annotated[str, SCHEMA_TYPE]
    schema: Annotated[str, _SCHEMA] = ""
    properties: Properties | None = None


class TopicGrant(msgspec.Struct):
    topic: Annotated[str, TOPIC] = ""
    role: Annotated[str, Limit("a role", bytes_max=2 * NAME_BYTES_MAX + 1)] = ""
    actions: Annotated[list[str], _ACTIONS] = []


class ResetCursorData(msgspec.Struct, rename="camel"):
    ledger_id: LedgerId
    entry_id: LedgerId
    partition_index: Annotated[int, Limit("a partition, or -1", minimum=-1, maximum=PARTITIONS_MAX - 1)] = -1
    batch_index: Annotated[int, Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1)] = -1
    excluded: bool = False
    properties: Properties | None = None


class AutoFailover(msgspec.Struct):
    """`parameters`: numbers as texts, as Pulsar's tools send them."""

    policy_type: Annotated[str, Limit("there is one", bytes_max=64)] | None = None
    parameters: Annotated[dict[str, str], Limit("there are two", bytes_max=64, count_max=16)] | None = None


class IsolationData(msgspec.Struct):
    namespaces: Expressions | None = None
    primary: Expressions | None = None
    secondary: Expressions | None = None
    auto_failover_policy: AutoFailover | None = None
    unload_scope: Annotated[str, Limit("one of three values", bytes_max=64)] | None = None


class FailureDomainData(msgspec.Struct):
    brokers: Annotated[list[str], Limit("each is looked for", bytes_max=NAME_BYTES_MAX, count_max=256)] | None = None


class BookieInfo(msgspec.Struct):
    rack: Annotated[str, Limit("a name", bytes_max=NAME_BYTES_MAX)] | None = None
    hostname: Annotated[str, Limit("a name", bytes_max=NAME_BYTES_MAX)] | None = None


OBJECTS = (
    BookieInfo,
    AutoFailover,
    IsolationData,
    FailureDomainData,
    TenantInfo,
    BundlesData,
    GivenPermissions,
    CreationPolicies,
    BacklogQuota,
    PartitionedTopicMetadata,
    SchemaPayload,
    TopicGrant,
    ResetCursorData,
)


@dataclass(frozen=True)
class Bare(Generic[T_co]):
    """A body that is a single value. `name` is what errors call it."""

    name: str
    kind: type[T_co]
    limit: Limit


_ANYTHING: Any = Any
_POSITION: Any = ResetCursorData | str
_POLICY = Limit(
    "the largest policy is `properties`",
    bytes_max=PAIR_BYTES_MAX,
    count_max=PAIRS_COUNT_MAX,
    total_bytes_max=PAIRS_TOTAL_BYTES_MAX,
)

ACTIONS_GIVEN = Bare("actions", list[str], _ACTIONS)
ROLES_GIVEN = Bare("roles", list[str], ROLES)
CLUSTERS_GIVEN = Bare("clusters", list[str], CLUSTERS)
PROPERTIES_GIVEN = Bare("properties", dict[str, str], PROPERTIES)
PARTITIONS_GIVEN = Bare("partitions", int, PULSAR_PARTITIONS)
POLICY_GIVEN: Bare[Any] = Bare("policy", _ANYTHING, _POLICY)
POLICIES_GIVEN = Bare(
    "policies", dict[str, Any], Limit("Pulsar's Policies object has 50 fields", count_max=128, error=PreconditionFailed)
)
GRANTS_GIVEN = Bare("grants", list[TopicGrant], Limit("each names a topic, which is looked up", count_max=100))
POSITIONS_GIVEN = Bare("splitBoundaries", list[int], Limit("each makes a bundle", count_max=BUNDLES_MAX))
POSITION_GIVEN: Bare[ResetCursorData | str] = Bare("position", _POSITION, Limit("earliest or latest", bytes_max=64))

BARE: tuple[Bare[Any], ...] = (
    ACTIONS_GIVEN,
    ROLES_GIVEN,
    CLUSTERS_GIVEN,
    PROPERTIES_GIVEN,
    PARTITIONS_GIVEN,
    POLICY_GIVEN,
    POLICIES_GIVEN,
    GRANTS_GIVEN,
    POSITIONS_GIVEN,
    POSITION_GIVEN,
)
