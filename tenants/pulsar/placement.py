"""Isolation policies, failure domains and anti-affinity groups, as Pulsar's tools know them."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.base import Request
from messaging.adminrpc.bundles import BundleLoad, LoadsAsked
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS
from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Resource
from messaging.policies.isolation import UNLOAD_SCOPES, Isolation, IsolationRules
from tenants import actions, broker
from tenants.actions.placement import (
    delete_failure_domain,
    delete_isolation_policy,
    failure_domains,
    isolation_policies,
    namespaces_of_group,
    set_failure_domain,
    set_isolation_policy,
)
from tenants.http.views import actor, body, done, route, value_or_nothing
from tenants.names import namespace_of
from tenants.pulsar.bodies import AutoFailover, FailureDomainData, IsolationData
from tenants.pulsar.brokers import existing_cluster
from tenants.pulsar.namespace_policies import as_precondition
from tenants.pulsar.rows import existing_namespace

_GROUP = "anti_affinity_group"
_FAILOVER = "min_available"


def _existing_cluster(name: str) -> None:
    """As Pulsar, which answers with 412 here. Raises `PreconditionFailed`."""
    try:
        existing_cluster(name)
    except NotFound as error:
        raise PreconditionFailed(error.message) from None


# --- isolation policies ---------------------------------------------------------------------------------------------------------


def _shown(isolation: Isolation) -> dict[str, Any]:
    return {
        "namespaces": isolation.namespaces,
        "primary": isolation.primary,
        "secondary": isolation.secondary,
        "auto_failover_policy": {
            "policy_type": _FAILOVER,
            "parameters": {"min_limit": str(isolation.min_limit), "usage_threshold": str(isolation.usage_threshold)},
        },
        "unload_scope": isolation.unload_scope,
    }


def _given(name: str, data: IsolationData | None) -> Isolation:
    """Raises `InvalidValue`."""
    if data is None or not data.namespaces or not data.primary or data.secondary is None or data.auto_failover_policy is None:
        raise InvalidValue(
            f"Invalid format of input policy data. policy: {name[:80]}; it needs namespaces, primary, secondary (which may be "
            "empty) and auto_failover_policy"
        )
    scope = next((each for each in UNLOAD_SCOPES if each == (data.unload_scope or UNLOAD_SCOPES[1])), None)
    if scope is None:
        raise InvalidValue(f"unload_scope {str(data.unload_scope)[:40]!r} is not valid: use {', '.join(UNLOAD_SCOPES)}")
    limit, threshold = _parameters(data.auto_failover_policy)
    return Isolation(tuple(data.namespaces), tuple(data.primary), tuple(data.secondary), limit, threshold, scope)


def _parameters(failover: AutoFailover) -> tuple[int, int]:
    if failover.policy_type != _FAILOVER:
        raise InvalidValue(f"auto-failover policy {str(failover.policy_type)[:40]!r} is not known: use {_FAILOVER}")
    given = failover.parameters or {}
    values = []
    for parameter in ("min_limit", "usage_threshold"):
        text = given.get(parameter)
        if text is None:
            raise InvalidValue(f"the auto-failover policy {_FAILOVER} needs the parameter {parameter}")
        if not (text.isascii() and text.isdecimal()) or len(text) > 9:
            raise InvalidValue(f"{parameter} {text[:40]!r} is not a whole number of at least 0")
        values.append(int(text))
    return values[0], values[1]


def _all(request: HttpRequest, cluster: str) -> dict[str, Any]:
    existing_cluster(cluster)
    return {name: _shown(each) for name, each in _policies().items()}


def _policies() -> dict[str, Isolation]:
    """Raises `NotFound` where there are none, as Pulsar does until there was one."""
    policies = isolation_policies()
    if not policies:
        raise NotFound(f"NamespaceIsolationPolicies for cluster {django_settings.MAGNETAR.cluster_name} does not exist")
    return policies


def _one(request: HttpRequest, cluster: str, policy: str) -> dict[str, Any]:
    _existing_cluster(cluster)
    policies = _policies()
    if policy not in policies:
        raise NotFound(f"Cannot find NamespaceIsolationPolicy {policy[:80]} for cluster {cluster}")
    return _shown(policies[policy])


def _set(request: HttpRequest, cluster: str, policy: str) -> None:
    _existing_cluster(cluster)
    set_isolation_policy(actor(request), policy, _given(policy, body(request, IsolationData, None)))


def _delete(request: HttpRequest, cluster: str, policy: str) -> None:
    _existing_cluster(cluster)
    delete_isolation_policy(actor(request), policy)


def _brokers(request: HttpRequest, cluster: str) -> list[dict[str, Any]]:
    _existing_cluster(cluster)
    rules = IsolationRules(_policies())
    seen = broker.rpc().call(BROKERS_LIST, Request()).brokers
    return [_broker(rules, each.broker_id) for each in seen if each.live]


def _one_broker(request: HttpRequest, cluster: str, broker_id: str) -> dict[str, Any]:
    _existing_cluster(cluster)
    return _broker(IsolationRules(_policies()), broker_id)


def _broker(rules: IsolationRules, broker_id: str) -> dict[str, Any]:
    """Of several policies that name it the last one is told."""
    roles = rules.roles_of(broker_id)
    expressions = [expression for name in roles for expression in rules.policies[name].namespaces]
    name = next(reversed(list(roles)), None)
    shown = {"brokerName": broker_id, "primary": name is not None and roles[name] == "primary", "namespaceRegex": expressions}
    return shown if name is None else shown | {"policyName": name}


def _owned(request: HttpRequest, cluster: str, broker_id: str) -> dict[str, Any]:
    """The bundles of a broker, and what it is to the policies of their namespaces."""
    existing_cluster(cluster)
    seen = broker.rpc().call(BROKERS_LIST, Request()).brokers
    alone = len(seen) == 1 and broker_id == request.get_host()  # what `brokers list` tells of one broker
    if not alone and broker_id not in {each.broker_id for each in seen if each.live}:
        raise NotFound(f"Broker id '{broker_id[:80]}' not found in available brokers.")
    rules = IsolationRules(isolation_policies())
    owned = broker.rpc().call(BUNDLES_LOADS, LoadsAsked(broker_id="" if alone else broker_id)).bundles
    return {f"{each.namespace}/{each.bundle}": _owned_status(rules, broker_id, each) for each in owned}


def _owned_status(rules: IsolationRules, broker_id: str, owned: BundleLoad) -> dict[str, Any]:
    policy = rules.policy_of(owned.namespace)
    role = rules.roles_of(broker_id).get(policy, "shared") if policy else "shared"
    return {"broker_assignment": role, "is_controlled": bool(policy), "is_active": owned.topics > 0}


# --- failure domains ------------------------------------------------------------------------------------------------------------


def _domains(request: HttpRequest, cluster: str) -> dict[str, Any]:
    existing_cluster(cluster)
    return {name: {"brokers": brokers} for name, brokers in failure_domains().items()}


def _domain(request: HttpRequest, cluster: str, group: str) -> dict[str, Any]:
    _existing_cluster(cluster)
    brokers = failure_domains().get(group)
    if brokers is None:
        raise NotFound(f"Domain {group[:80]} for cluster {cluster} does not exist")
    return {"brokers": brokers}


def _set_domain(request: HttpRequest, cluster: str, group: str) -> None:
    _existing_cluster(cluster)
    data = body(request, FailureDomainData, None)
    set_failure_domain(actor(request), group, (data and data.brokers) or [])


def _delete_domain(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    _existing_cluster(cluster)
    try:
        delete_failure_domain(actor(request), group)
    except NotFound:
        raise NotFound(f"Domain-name {group[:80]} or cluster {cluster} does not exist") from None
    return value_or_nothing(None)  # 200, not 204


# --- anti-affinity --------------------------------------------------------------------------------------------------------------


def _group(request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
    group = existing_namespace(tenant, namespace).policies.get(_GROUP)
    return value_or_nothing(group) if group else done()


def _set_group(request: HttpRequest, tenant: str, namespace: str) -> None:
    """The body is the bare name: Pulsar's tools send it without quotation marks, others with them."""
    text = request.body.decode("utf-8", "replace").strip()
    group = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not group.strip():
        raise PreconditionFailed("antiAffinityGroup can't be empty: delete the group instead")
    if group.startswith(("{", "[")):
        raise PreconditionFailed("the body is the bare name of an anti-affinity group, and a JSON object or list was sent")
    with as_precondition():
        actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), {_GROUP: group})


def _unset_group(request: HttpRequest, tenant: str, namespace: str) -> None:
    actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), {_GROUP: None})


def _together(request: HttpRequest, cluster: str, group: str) -> list[str]:
    """The namespaces of a tenant's group: those of other tenants are never near them because of it."""
    _existing_cluster(cluster)
    tenant = _tenant(request)
    if not tenant:
        raise InvalidValue("Tenant should not be null: name the tenant whose namespaces are asked for (--tenant)")
    return namespaces_of_group(tenant, group)


def _tenant(request: HttpRequest) -> str:
    """Pulsar's tools call it `property`, as tenants were called once."""
    return request.GET.get("property", "") or request.GET.get("tenant", "")


def _resources(request: HttpRequest) -> list[Resource]:
    return [Resource(_tenant(request))]


isolations_view = route(GET=_all)
isolation_view = route(GET=_one, POST=_set, DELETE=_delete)
isolation_brokers_view = route(GET=_brokers)
isolation_broker_view = route(GET=_one_broker)
owned_view = route(GET=_owned)
domains_view = route(GET=_domains)
domain_view = route(GET=_domain, POST=_set_domain, DELETE=_delete_domain)
group_view = route(GET=_group, POST=_set_group, DELETE=_unset_group)
together_view = route(_resources, GET=_together)
