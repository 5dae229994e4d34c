"""Permissions to produce and consume in a namespace, and to use a subscription."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from tenants import actions
from tenants.http.views import actor, body, route
from tenants.models import Grant, Namespace, SubscriptionGrant
from tenants.names import namespace_of, subscription_of
from tenants.pulsar.bodies import ACTIONS_GIVEN, ROLES_GIVEN
from tenants.pulsar.rows import existing_namespace
from tenants.scoping import tenant_scope


def _roles(namespace: Namespace, topic: str = "") -> dict[str, list[str]]:
    with tenant_scope(namespace.tenant_id):
        return dict(Grant.objects.filter(namespace=namespace, topic=topic).values_list("role", "actions"))


def _subscription_roles(namespace: Namespace) -> dict[str, list[str]]:
    roles_of: dict[str, list[str]] = {}
    with tenant_scope(namespace.tenant_id):
        rows = SubscriptionGrant.objects.filter(namespace=namespace).values_list("subscription", "role")
        for subscription, role in rows:
            roles_of.setdefault(subscription, []).append(role)
    return roles_of


def auth_policies(namespace: Namespace) -> dict[str, Any]:
    topics: dict[str, dict[str, list[str]]] = {}
    with tenant_scope(namespace.tenant_id):
        for topic, role, granted in (
            Grant.objects.filter(namespace=namespace).exclude(topic="").values_list("topic", "role", "actions")
        ):
            topics.setdefault(topic, {})[role] = granted
    return {
        "namespace_auth": _roles(namespace),
        "destination_auth": topics,
        "subscription_auth_roles": _subscription_roles(namespace),
    }


def _get_permissions(request: HttpRequest, tenant: str, namespace: str) -> dict[str, list[str]]:
    return _roles(existing_namespace(tenant, namespace))


def _grant(request: HttpRequest, tenant: str, namespace: str, role: str) -> None:
    actions.grant_permission(actor(request), str(namespace_of(tenant, namespace)), role, body(request, ACTIONS_GIVEN, []))


def _revoke(request: HttpRequest, tenant: str, namespace: str, role: str) -> None:
    actions.revoke_permission(actor(request), str(namespace_of(tenant, namespace)), role)


def _get_subscription_permissions(request: HttpRequest, tenant: str, namespace: str) -> dict[str, list[str]]:
    return _subscription_roles(existing_namespace(tenant, namespace))


def _restrict(request: HttpRequest, tenant: str, namespace: str, subscription: str) -> None:
    name = subscription_of(subscription)
    actions.restrict_subscription(actor(request), str(namespace_of(tenant, namespace)), name, body(request, ROLES_GIVEN, []))


def _unrestrict_of_that_name(request: HttpRequest, tenant: str, namespace: str, subscription: str) -> None:
    """In Pulsar's path, PERMISSIONS/SUBSCRIPTION/ROLE, it is the subscription that is called "subscription"."""
    _unrestrict(request, tenant, namespace, "subscription", subscription)


def _unrestrict(request: HttpRequest, tenant: str, namespace: str, subscription: str, role: str) -> None:
    name = subscription_of(subscription)
    actions.unrestrict_subscription(actor(request), str(namespace_of(tenant, namespace)), name, role)


permissions_view = route(GET=_get_permissions)
permission_view = route(POST=_grant, DELETE=_revoke)
subscription_permissions_view = route(GET=_get_subscription_permissions)
subscription_permission_view = route(POST=_restrict, DELETE=_unrestrict_of_that_name)
subscription_permission_role_view = route(DELETE=_unrestrict)
