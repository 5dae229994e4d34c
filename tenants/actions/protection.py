"""What must not be deleted: topics, namespaces and tenants that `deletion_protected` holds, and whatever they are in."""

from __future__ import annotations

from messaging.errors import DeletionProtected
from messaging.policies.model import Level
from messaging.policies.protection import POLICY, check_deletable
from messaging.policies.resolution import policy_topic
from messaging.protocol.names import TopicName
from tenants.models import Namespace, Tenant, TopicPolicies

_SET = {f"policies__{POLICY}": True}


def check_topic(topic: TopicName) -> None:
    """Raises `DeletionProtected`."""
    namespace = Namespace.unscoped.filter(name=str(topic.namespace)).select_related("tenant").first()
    if namespace is None:
        return
    policies = TopicPolicies.unscoped.filter(topic=policy_topic(topic)).values_list("policies", flat=True).first()
    levels = {Level.TOPIC: policies, Level.NAMESPACE: namespace.policies, Level.TENANT: namespace.tenant.policies}
    check_deletable(f"topic {topic}", levels)


def check_namespace(namespace: Namespace) -> None:
    """Raises `DeletionProtected`, also for a topic in it."""
    levels = {Level.NAMESPACE: namespace.policies, Level.TENANT: namespace.tenant.policies}
    check_deletable(f"namespace {namespace.name}", levels)
    topic = TopicPolicies.unscoped.filter(namespace=namespace, **_SET).values_list("topic", flat=True).first()
    if topic is not None:
        raise DeletionProtected(
            f"topic {topic} in namespace {namespace.name} is protected from deletion by policy {POLICY}: unset it first"
        )


def check_tenant(tenant: Tenant) -> None:
    """Raises `DeletionProtected`, also for a namespace or a topic in it."""
    check_deletable(f"tenant {tenant.name}", {Level.TENANT: tenant.policies})
    namespace = Namespace.unscoped.filter(tenant=tenant, **_SET).values_list("name", flat=True).first()
    topic = TopicPolicies.unscoped.filter(namespace__tenant=tenant, **_SET).values_list("topic", flat=True).first()
    if namespace or topic:
        what = f"namespace {namespace}" if namespace else f"topic {topic}"
        raise DeletionProtected(f"{what} of tenant {tenant.name} is protected from deletion by policy {POLICY}: unset it first")
