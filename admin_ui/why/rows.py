"""Steps as the page lists them: a state, a sentence, since when and through whom it is so, and where it is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from admin_ui.access import resource_of
from admin_ui.translation.texts import gettext, gettext_lazy
from admin_ui.why.texts import level_of, sentence_of, state_of, title_of
from messaging.adminrpc.diagnosis import ExplainStep
from messaging.errors import MagnetarError
from messaging.permissions.model import Action
from messaging.policies.effective import PolicyInForce
from messaging.policies.groups import SUBJECT_OF
from messaging.policies.model import Level
from messaging.problems.steps import Step, StepState
from messaging.protocol.names import TopicName
from tenants.access import Actor
from tenants.actions import policy_history
from tenants.actions.policy_history import Blame
from tenants.actions.policy_views import topic_in_force
from tenants.actions.topic_policies import topic_policies
from tenants.actions.topics import topic_resource

# The policies that set a step. The first that is set somewhere is told.
POLICIES: dict[str, tuple[str, ...]] = {
    Step.ENCRYPTION: ("encryption_required",),
    Step.SCHEMA: ("schema_compatibility", "schema_enforced", "schema_auto_update"),
    Step.MESSAGE_SIZE: ("max_message_size_bytes",),
    Step.BACKLOG_QUOTA: ("backlog_quota_bytes", "backlog_quota_age_s"),
    Step.PUBLISH_RATE: ("publish_rate_messages", "publish_rate_bytes"),
    Step.DEDUPLICATION: ("deduplication",),
    Step.EXPIRY: ("message_ttl_s",),
    Step.DELAY: ("delayed_delivery_fixed_ms", "delayed_delivery_default_ms", "delayed_delivery"),
    Step.DISPATCH_RATE: (
        "subscription_dispatch_rate_messages",
        "subscription_dispatch_rate_bytes",
        "dispatch_rate_messages",
        "dispatch_rate_bytes",
    ),
    Step.CONSUMER_UNACKED: ("max_unacked_per_consumer",),
    Step.SUBSCRIPTION_UNACKED: ("max_unacked_per_subscription",),
}


@dataclass(frozen=True)
class PolicySource:
    """A policy in words, at which level it is set, by whom and when, as far as the reader may know. `url`: where it is changed."""

    text: str
    level: str
    role: str
    at: datetime | None
    url: str


@dataclass(frozen=True)
class Fix:
    label: str
    url: str


@dataclass(frozen=True)
class StepRow:
    """`is_held`: it is the one at which messages stop."""

    step: str
    title: str
    state: str
    badge: str
    sentence: str | SafeString
    who: list[str]
    more: int  # further ones than `who`
    since_ms: int | None
    set_by: PolicySource | None
    fixes: list[Fix]
    is_held: bool
    stands_out: bool


class Place:
    """Where the steps are: a topic, or a subscription of it, as `actor` may see it."""

    def __init__(self, actor: Actor, name: TopicName, address: list[str], subscription: str = "") -> None:
        """`address`: tenant, local namespace and topic of the page."""
        self.actor, self.name, self.address, self.subscription = actor, name, address, subscription
        self._policies = _policies_in_force(name, subscription)
        self._blames: dict[Level, Mapping[str, Blame]] = {}

    def rows(self, steps: Iterable[ExplainStep], held_at: str) -> list[StepRow]:
        return [self._row(step, held_at) for step in steps]

    def _row(self, step: ExplainStep, held_at: str) -> StepRow:
        word, badge = state_of(step.step, step.state)
        refused = step.code == REFUSED and step.state == StepState.SLOWS
        total = next((step.facts[name] for name in ("stuck", "standby", "producers", "consumers") if name in step.facts), 0)
        return StepRow(
            step=step.step,
            title=title_of(step.step),
            state=gettext("refused some") if refused else word,
            badge=badge,
            sentence=sentence_of(step),
            who=step.who,
            more=max(0, int(total) - len(step.who)) if step.who else 0,
            since_ms=step.since_ms,
            set_by=self._set_by(step.step),
            fixes=self._fixes(REFUSED if refused else step.step)
            if step.state in (StepState.SHUT, StepState.SLOWS) or step.step == held_at
            else [],
            is_held=step.step == held_at,
            stands_out=step.state in (StepState.SHUT, StepState.SLOWS) or step.step == held_at,
        )

    # --- who has set it

    def _set_policy(self, step: str) -> PolicyInForce | None:
        set_ones = [self._policies[name] for name in POLICIES.get(step, ()) if name in self._policies]
        return next((one for one in set_ones if one.level is not Level.BROKER), None)

    def _set_by(self, step: str) -> PolicySource | None:
        found = self._set_policy(step)
        if found is None:
            return None
        blame = self._blame(found.level).get(found.policy.name)
        record = blame.record if blame is not None else None
        text = f"{found.policy.label or found.policy.title}: {found.text}"
        role, at = (record.role, record.at) if record is not None else ("", None)
        return PolicySource(text, level_of(found.level), role, at, self._policy_url(found))

    def _policy_url(self, found: PolicyInForce) -> str:
        route, length = {Level.TENANT: ("tenant_policies", 1), Level.NAMESPACE: ("policies", 2)}.get(
            found.level, ("topic_policies", 3)
        )
        return f"{reverse(f'console:{route}', args=self.address[:length])}?policy={SUBJECT_OF[found.policy.name].name}#policy"

    def _blame(self, level: Level) -> Mapping[str, Blame]:
        """Of what is set at a level: nothing for those who may not read the audit log."""
        if level not in self._blames:
            place = {
                Level.TENANT: lambda: policy_history.of_tenant(self.name.tenant),
                Level.NAMESPACE: lambda: policy_history.of_namespace(str(self.name.namespace)),
                Level.TOPIC: lambda: policy_history.of_topic(self.name.base),
                Level.SUBSCRIPTION: lambda: policy_history.of_topic(self.name.base, self.subscription),
            }.get(level)
            found: list[Blame] = []
            if place is not None and self.actor.may(Action.AUDIT_READ, topic_resource(self.name)):
                try:
                    found = policy_history.blame(place())
                except MagnetarError:
                    found = []  # the broker does not say when the topic was created, so whose changes these are is unknown
            self._blames[level] = {one.name: one for one in found}
        return self._blames[level]

    # --- what fixes it

    def _fixes(self, step: str) -> list[Fix]:
        found = [self._fix(step, *fix) for fix in (_FIRST_FIXES.get(step), _FIXES.get(step)) if fix is not None]
        return [fix for fix in found if fix is not None]

    def _fix(self, step: str, label: str, route: str, action: Action) -> Fix | None:
        args, query = list(self.address), ""
        if route in _OF_SUBSCRIPTION:
            args.append(self.subscription)
        elif route == "month_ahead":
            args = args[:1]
        elif route == "topic_policies":
            found = self._set_policy(step)  # that which holds: a dispatch rate is of the subscription, or of the topic
            query = f"?policy={SUBJECT_OF[found.policy.name if found else POLICIES[step][0]].name}#policy"
        elif route == "topic_disconnect":
            query = f"?{urlencode({'kind': 'consumer', 'subscription': self.subscription})}"
        parts = dict(zip(("tenant", "namespace", "topic"), args, strict=False))
        resource = resource_of(parts)._replace(subscription=self.subscription if route in _OF_SUBSCRIPTION else "")
        return Fix(str(label), reverse(f"console:{route}", args=args) + query) if self.actor.may(action, resource) else None


REFUSED = "consumer.refused"  # the code of what the step says of consumers while others are refused
# Before those below: who holds messages and does nothing lets go of them, and others get them, where no limit is wrong.
_DISCONNECT = (gettext_lazy("Disconnect…"), "topic_disconnect", Action.OPERATE)
_FIRST_FIXES: dict[str, tuple[str, str, Action]] = {
    Step.CONSUMER_UNACKED: _DISCONNECT,
    Step.SUBSCRIPTION_UNACKED: _DISCONNECT,
}
_FIXES: dict[str, tuple[str, str, Action]] = {
    Step.TOPIC: (gettext_lazy("Operations"), "topic_operations", Action.NAMESPACE_READ),
    Step.SPENDING: (gettext_lazy("Month ahead"), "month_ahead", Action.BILLING_READ),
    Step.ENCRYPTION: (gettext_lazy("Change it"), "topic_policies", Action.NAMESPACE_READ),
    Step.SCHEMA: (gettext_lazy("Schemas"), "topic_schemas", Action.NAMESPACE_READ),
    Step.STORED_BYTES: (gettext_lazy("Storage"), "topic_storage", Action.NAMESPACE_READ),
    Step.BACKLOG_QUOTA: (gettext_lazy("Change the quota"), "topic_policies", Action.NAMESPACE_READ),
    Step.PUBLISH_RATE: (gettext_lazy("Change the rate"), "topic_policies", Action.NAMESPACE_READ),
    Step.SUBSCRIPTION: (gettext_lazy("Unload the topic"), "topic_unload", Action.OPERATE),
    Step.BACKLOG: (gettext_lazy("Reset"), "subscription_reset", Action.CURSOR_ADMIN),
    Step.EXPIRY: (gettext_lazy("Change expiry"), "topic_policies", Action.NAMESPACE_READ),
    REFUSED: _DISCONNECT,
    Step.CONSUMER: (gettext_lazy("Clear backlog"), "subscription_clear", Action.CURSOR_ADMIN),
    Step.DELAY: (gettext_lazy("Delayed messages"), "delayed", Action.NAMESPACE_READ),
    Step.DISPATCH_RATE: (gettext_lazy("Change the rate"), "topic_policies", Action.NAMESPACE_READ),
    Step.KEYS: _DISCONNECT,
    Step.CONNECTION: _DISCONNECT,
    Step.PERMITS: _DISCONNECT,
    Step.CONSUMER_UNACKED: (gettext_lazy("Change the limit"), "topic_policies", Action.NAMESPACE_READ),
    Step.SUBSCRIPTION_UNACKED: (gettext_lazy("Change the limit"), "topic_policies", Action.NAMESPACE_READ),
    Step.ACKNOWLEDGEMENT: _DISCONNECT,
    Step.DEAD_LETTERS: (gettext_lazy("Policy"), "dead_letter_policy", Action.CONSUME),
}
_OF_SUBSCRIPTION = frozenset({"subscription_reset", "subscription_clear", "dead_letter_policy"})


def _policies_in_force(name: TopicName, subscription: str) -> dict[str, PolicyInForce]:
    """Empty where the topic's policies are not known."""
    try:
        row = topic_policies(name.base)
    except MagnetarError:
        return {}
    of_topic, of_subscription = topic_in_force(row), topic_in_force(row, subscription) if subscription else []
    return {one.policy.name: one for one in (*of_topic, *of_subscription)}
