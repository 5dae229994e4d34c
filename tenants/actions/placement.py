"""Isolation policies and failure domains: which brokers may have which namespaces. Of the platform's administrators alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action
from messaging.policies.isolation import POLICIES_MAX, Isolation, check_isolation, isolation_from
from messaging.protocol.names import entity_name
from tenants import feed
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.models import FailureDomain, IsolationPolicy, Namespace

DOMAINS_MAX = 100
BROKERS_OF_DOMAIN_MAX = 256
_GROUP = "anti_affinity_group"
_RESERVED = ("brokers",)  # what Pulsar's paths have in the place of a policy's name


def isolation_policies() -> dict[str, Isolation]:
    """By name."""
    return {row.name: isolation_from(feed.isolation_state(row)) for row in IsolationPolicy.objects.all()}


def set_isolation_policy(actor: Actor, name: str, isolation: Isolation) -> None:
    """Makes the policy, or puts another in its place; brokers move bundles from then on, as its `unload_scope` says. Raises
    `InvalidName`, `InvalidValue`, `PreconditionFailed`."""
    require(actor, Action.SUPERUSER)
    entity_name("isolation policy", name)
    if name in _RESERVED:
        raise InvalidValue(f"an isolation policy cannot be called {name!r}: choose another name")
    check_isolation(isolation)
    with change(actor) as changing:
        row = IsolationPolicy.objects.filter(name=name).first()
        before = None if row is None else feed.isolation_state(row)
        if row is None and IsolationPolicy.objects.count() >= POLICIES_MAX:
            raise PreconditionFailed(f"there are {POLICIES_MAX} isolation policies, and may be no more: delete one first")
        values = {field: list(each) if isinstance(each, tuple) else each for field, each in isolation._asdict().items()}
        row, _ = IsolationPolicy.objects.update_or_create(name=name, defaults=values)
        _publish(changing, "isolation", name, before, feed.isolation_state(row))


def delete_isolation_policy(actor: Actor, name: str) -> bool:
    """Whether there was one. No bundle moves because of it."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        row = IsolationPolicy.objects.filter(name=name).first()
        if row is None:
            return False
        row.delete()
        _publish(changing, "isolation", name, feed.isolation_state(row), None)
    return True


def failure_domains() -> dict[str, list[str]]:
    """The ids of brokers, by the names of their domains."""
    return dict(FailureDomain.objects.values_list("name", "brokers"))


def set_failure_domain(actor: Actor, name: str, brokers: Sequence[str]) -> None:
    """Makes the domain, or puts other brokers into it; nothing moves because of it. Raises `InvalidName`, `InvalidValue`,
    `Conflict` where a broker is in another domain, `PreconditionFailed`."""
    require(actor, Action.SUPERUSER)
    entity_name("failure domain", name)
    if len(brokers) > BROKERS_OF_DOMAIN_MAX:
        raise InvalidValue(f"{len(brokers)} brokers are given, and a failure domain has up to {BROKERS_OF_DOMAIN_MAX}")
    with change(actor) as changing:
        domains = failure_domains()
        for other, others in domains.items():
            taken = sorted(set(brokers) & set(others)) if other != name else []
            if taken:
                raise Conflict(f"{taken[0]} already exists in another domain: {other}; take it out of that first")
        if name not in domains and len(domains) >= DOMAINS_MAX:
            raise PreconditionFailed(f"there are {DOMAINS_MAX} failure domains, and may be no more: delete one first")
        row, _ = FailureDomain.objects.update_or_create(name=name, defaults={"brokers": list(dict.fromkeys(brokers))})
        before = {"brokers": domains[name]} if name in domains else None
        _publish(changing, "failure_domain", name, before, feed.failure_domain_state(row))


def delete_failure_domain(actor: Actor, name: str) -> None:
    """Raises `NotFound`."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        row = FailureDomain.objects.filter(name=name).first()
        if row is None:
            raise NotFound(f"Domain {name[:80]} does not exist")
        row.delete()
        _publish(changing, "failure_domain", name, feed.failure_domain_state(row), None)


def namespaces_of_group(tenant: str, group: str) -> list[str]:
    """The namespaces of a tenant's anti-affinity group, in whose name case does not matter."""
    rows = Namespace.unscoped.filter(tenant=tenant, policies__has_key=_GROUP).values_list("name", "policies")
    return [name for name, policies in rows if str(policies[_GROUP]).lower() == group.lower()]


def _publish(changing: Any, kind: str, name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
    changing.audit(f"{kind}.{'delete' if after is None else 'set'}", "", name, before, after)
    changing.publish_change(kind, name, after)
