"""The policies in force, what a change of them would do, and what it would have done. All of it only reads."""

from __future__ import annotations

from messaging.adminrpc.methods import POLICIES_PREVIEW
from messaging.adminrpc.policies import PolicyPreview, PolicyPreviewAnswer
from messaging.permissions.model import Action, Resource
from messaging.policies.effective import PolicyInForce, in_force
from messaging.policies.model import Level
from messaging.policies.resolution import Levels
from messaging.policies.validation import JsonPolicies, changed
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.namespaces import retention_ceilings
from tenants.actions.tenants import require_for_policies
from tenants.actions.topic_policies import compared, topic_policies
from tenants.actions.topics import topic_resource
from tenants.broker_settings import policy_defaults
from tenants.history.spans import AskedSpan
from tenants.history.what_if import PolicyChangeAsked, PolicyWhatIf, what_if
from tenants.models import Namespace, Tenant, TopicPolicies
from tenants.scoping import tenant_scope


def levels_of(row: TopicPolicies, subscription: str = "") -> Levels:
    """What is set for a topic, or a subscription of it, at each level."""
    return {
        Level.SUBSCRIPTION: row.subscriptions.get(subscription),
        Level.TOPIC: row.policies,
        **levels_of_namespace(row.namespace),
    }


def levels_of_namespace(namespace: Namespace) -> dict[Level, JsonPolicies]:
    return {Level.NAMESPACE: namespace.policies, Level.TENANT: namespace.tenant.policies}


def namespace_in_force(namespace: Namespace) -> list[PolicyInForce]:
    return in_force(levels_of_namespace(namespace), policy_defaults(), Level.NAMESPACE)


def tenant_in_force(tenant: Tenant) -> list[PolicyInForce]:
    return in_force({Level.TENANT: tenant.policies}, policy_defaults(), Level.TENANT)


def topic_in_force(row: TopicPolicies, subscription: str = "") -> list[PolicyInForce]:
    scope = Level.SUBSCRIPTION if subscription else Level.TOPIC
    return in_force(levels_of(row, subscription), policy_defaults(), scope)


def checked_tenant(actor: Actor, tenant: Tenant, changes: JsonPolicies) -> PolicyChangeAsked:
    """Whether `changes` could be set (None: unset) by this actor. Raises what setting them raises."""
    require_for_policies(actor, tenant.name, changes)
    changed(tenant.policies, changes, Level.TENANT)
    return PolicyChangeAsked(tenant, "", "", "", changes)


def checked_namespace(actor: Actor, namespace: Namespace, changes: JsonPolicies) -> PolicyChangeAsked:
    require(actor, Action.NAMESPACE_ADMIN, Resource(namespace.tenant_id, namespace.name))
    changed(namespace.policies, changes, inherited=retention_ceilings(namespace.tenant))
    return PolicyChangeAsked(namespace.tenant, namespace.name, "", "", changes)


def checked_topic(actor: Actor, topic: TopicName, changes: JsonPolicies, subscription: str = "") -> PolicyChangeAsked:
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    row = topic_policies(topic)
    held = row.subscriptions.get(subscription, {}) if subscription else row.policies
    changed(held, changes, Level.SUBSCRIPTION if subscription else Level.TOPIC, compared(row.namespace))
    return PolicyChangeAsked(row.namespace.tenant, str(topic.namespace), str(topic), subscription, changes)


def preview(changing: PolicyChangeAsked) -> PolicyPreviewAnswer:
    """What a change that was checked would do now. Raises `NotReady`."""
    asked = PolicyPreview(
        tenant="" if changing.namespace else changing.tenant.name,
        namespace=changing.namespace,
        topic=changing.topic,
        subscription=changing.subscription,
        policies=changing.changes,
    )
    return broker.rpc().call(POLICIES_PREVIEW, asked)


def held_against_history(changing: PolicyChangeAsked, span: AskedSpan, now_ms: int) -> PolicyWhatIf:
    """What a change that was checked would have done in the span. Asks no broker."""
    with tenant_scope(changing.tenant.name):
        return what_if(changing, span, now_ms)
