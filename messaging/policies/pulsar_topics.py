"""Policies of topics as Pulsar's admin API has them: paths below a topic. Their names differ from those below a namespace.

What Pulsar 4.0 answers there is not uniform, and clients rely on it; each row says what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from messaging.errors import PreconditionFailed
from messaging.policies.model import Level, Policy
from messaging.policies.pulsar import PulsarPath
from messaging.policies.registry import POLICIES
from messaging.policies.resolution import Levels, resolve_policy
from messaging.policies.validation import JsonPolicies

_NOT_LIMITED = {
    "dispatchThrottlingRateInMsg": 0,
    "dispatchThrottlingRateInByte": 0,
    "ratePeriodInSecond": 1,
    "relativeToPublishRate": False,
}
SUBSCRIPTION_PATH = "dispatchRate"  # below a subscription of a topic


@dataclass(frozen=True)
class TopicPath(PulsarPath):
    """`of`: the path below a namespace that sets the same policies."""

    whole_key: str = ""  # a topic has no whole object
    of: str = ""
    level: Level = Level.TOPIC
    knows_applied: bool = True  # GET ?applied=true answers the value in force; else it is ignored
    in_query: bool = False  # the value is a parameter of the query, named as the path
    must_have_value: bool = True  # setting without a value is an error; else it unsets
    can_unset: bool = True  # DELETE unsets it
    unsetting: Any = None  # setting this value unsets, too
    unset_applied: Any = None  # what GET ?applied=true answers for policies that are not enforced

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        path = self.of or self.path
        return tuple(policy for policy in POLICIES.values() if policy.path == path and self.level in policy.levels)

    @property
    def methods(self) -> tuple[str, ...]:
        """Of HTTP; GET is the first."""
        return ("GET", self.set_by, "DELETE") if self.can_unset else ("GET", self.set_by)

    def applied(self, levels: Levels, broker: JsonPolicies) -> Any:
        """What GET ?applied=true answers."""
        values = {policy.name: resolve_policy(policy.name, levels, broker).value for policy in self.policies if policy.enforced}
        value = self.read(values) if values else self.unset_applied
        return "FULL" if value == "UNDEFINED" else value

    def changes(self, value: Any) -> JsonPolicies:
        if value is None and self.must_have_value:
            raise PreconditionFailed(f"{self.path} needs a value: send it as JSON, or remove the policy with DELETE")
        return super().changes(value)

    def unsets(self, value: Any) -> bool:
        return type(value) is type(self.unsetting) and value == self.unsetting


_PATHS = (
    TopicPath("retention", must_have_value=False),
    TopicPath("messageTTL", in_query=True, must_have_value=False),
    TopicPath("deduplicationEnabled", of="deduplication", must_have_value=False),
    TopicPath("deduplicationSnapshotInterval"),
    TopicPath("autoSubscriptionCreation", must_have_value=False),
    TopicPath("delayedDelivery", must_have_value=False),
    TopicPath("inactiveTopicPolicies", must_have_value=False),
    TopicPath("persistence", must_have_value=False),
    TopicPath("publishRate", knows_applied=False, must_have_value=False),
    TopicPath("dispatchRate", must_have_value=False),
    TopicPath("subscriptionDispatchRate", must_have_value=False),
    TopicPath("replicatorDispatchRate", must_have_value=False, unset_applied=_NOT_LIMITED),
    TopicPath("subscribeRate", must_have_value=False),
    TopicPath("maxProducers", of="maxProducersPerTopic"),
    TopicPath("maxConsumers", of="maxConsumersPerTopic"),
    TopicPath("maxConsumersPerSubscription", knows_applied=False),
    TopicPath("maxMessageSize", knows_applied=False),
    TopicPath("maxSubscriptionsPerTopic", knows_applied=False),
    TopicPath("maxUnackedMessagesOnConsumer", of="maxUnackedMessagesPerConsumer"),
    TopicPath("maxUnackedMessagesOnSubscription", of="maxUnackedMessagesPerSubscription"),
    TopicPath("compactionThreshold"),
    TopicPath("schemaCompatibilityStrategy", unsetting="UNDEFINED", set_by="PUT", must_have_value=False),
    TopicPath("schemaValidationEnforced", unset=False, can_unset=False),
    TopicPath("subscriptionTypesEnabled", unset=[], unsetting=[], knows_applied=False),
)
TOPIC_PATHS: dict[str, TopicPath] = {path.path: path for path in _PATHS}
SUBSCRIPTION_DISPATCH_RATE = TopicPath(
    SUBSCRIPTION_PATH, of="subscriptionDispatchRate", level=Level.SUBSCRIPTION, must_have_value=False
)
