"""Ceilings of a tenant: what is in force and used, and setting them, which only administrators of the platform may."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings as django_settings
from django.db.models import DurationField, ExpressionWrapper, F, Max
from django.utils import timezone

from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.ceilings import CeilingsAsked
from messaging.adminrpc.methods import CEILINGS_USED
from messaging.errors import MagnetarError
from messaging.policies.ceilings import UNLIMITED, Ceiling, ceilings_of, check_names
from messaging.policies.spending import throttled
from messaging.policies.validation import JsonPolicies
from tenants import broker
from tenants.access import Actor
from tenants.actions.tenants import set_tenant_policies
from tenants.broker_settings import policy_defaults
from tenants.call_rates import call_rates
from tenants.models import Key, Namespace, Tenant, TopicPolicies

Used = dict[str, int | None]


def tenant_ceilings(tenant: Tenant, rpc: TypedCalls | None = None) -> list[Ceiling]:
    """Callers check permissions. What the broker owns is unknown while it does not answer. `rpc`: of another process than web."""
    used = {**_used_here(tenant), **_used_there(tenant, rpc or broker.rpc())}
    defaults = policy_defaults()
    in_force = throttled(tenant.policies, tenant.spend.get("rates", {}), defaults)
    return ceilings_of(in_force, defaults, django_settings.MAGNETAR, used)


def set_ceilings(actor: Actor, tenant: str, changes: JsonPolicies) -> Tenant:
    """A value of None unsets one. Raises `NotAuthorized`, `NotFound`, `InvalidValue`, `NotReady`."""
    check_names(changes)
    return set_tenant_policies(actor, tenant, changes)


def _used_there(tenant: Tenant, rpc: TypedCalls) -> Used:
    try:
        return dict(rpc.call(CEILINGS_USED, CeilingsAsked(tenant=tenant.name)).used)
    except MagnetarError:
        return {}


def _used_here(tenant: Tenant) -> Used:
    return {
        "max_namespaces_per_tenant": Namespace.unscoped.filter(tenant=tenant).count(),
        "max_keys_per_tenant": Key.unscoped.filter(tenant=tenant).count(),
        "max_key_lifetime_days": _longest_key_life_days(tenant),
        "tenant_admin_rate_calls": call_rates.of_last_second(tenant.name, time.time_ns() // 1_000_000),
        "max_retention_time_min": _greatest(tenant, "retention_time_min"),
        "max_retention_size_mb": _greatest(tenant, "retention_size_mb"),
    }


def _longest_key_life_days(tenant: Tenant) -> int:
    """Of the keys that are valid now, rounded down; 0: there are none."""
    valid = Key.unscoped.filter(tenant=tenant, revoked_at=None)
    if valid.filter(expires_at=None).exists():
        return UNLIMITED
    lives = ExpressionWrapper(F("expires_at") - F("created_at"), output_field=DurationField())
    longest: timedelta | None = valid.filter(expires_at__gt=timezone.now()).aggregate(life=Max(lives))["life"]
    return longest.days if longest else 0


def _greatest(tenant: Tenant, policy: str) -> int:
    """That is set anywhere; 0: none is."""
    of_namespaces = Namespace.unscoped.filter(tenant=tenant, policies__has_key=policy)
    of_topics = TopicPolicies.unscoped.filter(namespace__tenant=tenant, policies__has_key=policy)
    values: Iterable[object] = [
        tenant.policies.get(policy),
        *of_namespaces.values_list(f"policies__{policy}", flat=True).distinct(),
        *of_topics.values_list(f"policies__{policy}", flat=True).distinct(),
    ]
    numbers = [value for value in values if isinstance(value, int)]
    return UNLIMITED if UNLIMITED in numbers else max(numbers, default=0)
