"""The policies in force, and what a change of them would do. Both only read."""

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
from tenants.actions.topic_policies import compared, topic_policies
from tenants.actions.topics import topic_resource
from tenants.broker_settings import policy_defaults
from tenants.models import Namespace, Tenant, TopicPolicies


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


def preview_tenant(actor: Actor, tenant: Tenant, changes: JsonPolicies) -> PolicyPreviewAnswer:
    """What setting `changes` (None: unsetting) would do now. Raises what setting them raises, and `NotReady`."""
    require(actor, Action.SUPERUSER, Resource(tenant.name))
    changed(tenant.policies, changes, Level.TENANT)
    return broker.rpc().call(POLICIES_PREVIEW, PolicyPreview(tenant=tenant.name, policies=changes))


def preview_namespace(actor: Actor, namespace: Namespace, changes: JsonPolicies) -> PolicyPreviewAnswer:
    """What setting `changes` (None: unsetting) would do now. Raises what setting them raises, and `NotReady`."""
    require(actor, Action.NAMESPACE_ADMIN, Resource(namespace.tenant_id, namespace.name))
    changed(namespace.policies, changes, inherited=retention_ceilings(namespace.tenant))
    return broker.rpc().call(POLICIES_PREVIEW, PolicyPreview(namespace=namespace.name, policies=changes))


def preview_topic(actor: Actor, topic: TopicName, changes: JsonPolicies, subscription: str = "") -> PolicyPreviewAnswer:
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    row = topic_policies(topic)
    held = row.subscriptions.get(subscription, {}) if subscription else row.policies
    changed(held, changes, Level.SUBSCRIPTION if subscription else Level.TOPIC, compared(row.namespace))
    asked = PolicyPreview(namespace=str(topic.namespace), topic=str(topic), subscription=subscription, policies=changes)
    return broker.rpc().call(POLICIES_PREVIEW, asked)
