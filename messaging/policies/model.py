"""The description of a policy: its name, its valid values, and where it is set."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from messaging.limits.sizes import PAIRS_COUNT_MAX, PARTITIONS_MAX
from messaging.payloads.masks import RULE_CHARACTERS_MAX, RULES_MAX


class Level(StrEnum):
    """Where a value may be set, the nearest to the message first."""

    SUBSCRIPTION = "subscription"
    TOPIC = "topic"  # of a partitioned topic: of all its partitions
    NAMESPACE = "namespace"
    TENANT = "tenant"  # of all its namespaces
    BROKER = "broker"


TICK_MS_MAX = 3_600_000  # an hour: messages may come as much too early, so a longer one would be no delay
NAMESPACE_ONLY = (Level.NAMESPACE,)
TENANT_ONLY = (Level.TENANT,)
WITH_TENANTS = (Level.NAMESPACE, Level.TENANT)
WITH_TOPICS = (Level.TOPIC, *WITH_TENANTS)
WITH_SUBSCRIPTIONS = (Level.SUBSCRIPTION, *WITH_TOPICS)
_LIMIT = 2**53 - 1  # what JSON readers keep exactly

Flag = bool
Count = Annotated[int, Meta(ge=0, le=_LIMIT)]
Positive = Annotated[int, Meta(ge=1, le=_LIMIT)]
CountOrUnlimited = Annotated[int, Meta(ge=-1, le=_LIMIT)]
Tick = Annotated[int, Meta(ge=1, le=TICK_MS_MAX)]
Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
RecycleBinHours = Annotated[int, Meta(ge=0, le=8_760)]  # a year
Partitions = Annotated[int, Meta(ge=0, le=PARTITIONS_MAX)]
Rate = Annotated[float, Meta(ge=0, le=_LIMIT)]
QuotaAction = Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"]
SubscriptionTypes = Annotated[list[Literal["Exclusive", "Shared", "Failover", "Key_Shared"]], Meta(max_length=4)]
InactiveMode = Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"]
ROLE_PREFIX: Literal["Prefix"] = "Prefix"
SubscriptionAuthMode = Literal["None", "Prefix"]
SchemaStrategy = Literal[
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
]
GroupName = Annotated[str, Meta(max_length=128)]
MaskRules = Annotated[list[Annotated[str, Meta(min_length=1, max_length=RULE_CHARACTERS_MAX)]], Meta(max_length=RULES_MAX)]
Properties = Annotated[dict[str, str], Meta(max_length=PAIRS_COUNT_MAX)]  # their sizes: messaging.limits.rest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One row of the registry (`messaging.policies.registry`).

    `enforced_by` names the function that holds the policy, as ``module:function``; "" means that nothing does yet, and then the
    policy is refused wherever it could be set.
    """

    name: str
    kind: Any  # the type of a value, with its range
    meaning: str
    path: str = ""  # Pulsar's, below /admin/v2/namespaces/TENANT/NAMESPACE/ ("": it has none); that below a topic: `pulsar_topics`
    unit: str = ""
    default: Any = None  # where no level sets it; None: the broker setting `setting`
    setting: str = ""  # of `messaging.settings.Settings`
    field: str = ""  # of the JSON object that Pulsar's path takes; "": the path takes the bare value
    fill: Any = None  # what Pulsar takes for a missing field
    label: str = ""  # in the console; "": the name in words
    phrase: str = "{}"  # how the console says a value
    words: Mapping[Any, str] = dataclasses.field(default_factory=dict)  # value -> what the console says instead
    levels: tuple[Level, ...] = WITH_TENANTS  # where it may be set, beside the broker's setting
    enforced_by: str = ""

    @property
    def enforced(self) -> bool:
        return bool(self.enforced_by)

    @property
    def title(self) -> str:
        return self.label or self.name.replace("_", " ").capitalize()


def value_schema(policy: Policy) -> dict[str, Any]:
    """The JSON schema of its values."""
    return msgspec.json.schema(policy.kind)


def range_text(policy: Policy) -> str:
    """Which values it takes, in words."""
    return _text(value_schema(policy))


def _text(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    match schema["type"]:
        case "boolean":
            return "true or false"
        case "string":
            return f"text of up to {schema['maxLength']} characters"
        case "array" if "maxItems" in schema and "enum" not in schema["items"]:
            return f"list of up to {schema['maxItems']} rules"
        case "array":
            return f"list of {_text(schema['items'])}"
        case "object":
            return f"up to {schema['maxProperties']} pairs of text"
        case kind:
            noun = "whole number" if kind == "integer" else "number"
            least, most = schema["minimum"], schema["maximum"]
            return f"{noun}, at least {least}" if most >= _LIMIT else f"{noun}, {least} to {most}"
