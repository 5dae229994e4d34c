"""Policies that limit a tenant in the control plane; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

TABLE = (
    Policy(
        name="max_keys_per_tenant",
        kind=m.Count,
        unit="keys",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "as the platform"},
        meaning="Maximum number of keys of the tenant, of which revoked ones are forgotten when a new one needs room; 0: the "
        "setting keys_per_tenant_max, which is never exceeded.",
        enforced_by="tenants.actions.quotas:key_to_forget",
    ),
    Policy(
        name="max_key_lifetime_days",
        kind=m.Count,
        unit="days",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="For how long a new key of the tenant may live; keys that exist stay. 0: the setting key_lifetime_days_max, which "
        "is never exceeded.",
        enforced_by="tenants.actions.quotas:key_life_max",
    ),
    Policy(
        name="max_retention_time_min",
        kind=m.Count,
        unit="minutes",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="The greatest retention_time_min that may be set on the tenant, its namespaces and topics; what is set already "
        "stays. 0: unlimited.",
        enforced_by="messaging.policies.validation:check_retention",
    ),
    Policy(
        name="max_retention_size_mb",
        kind=m.Count,
        unit="MiB",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="The greatest retention_size_mb that may be set on the tenant, its namespaces and topics; what is set already "
        "stays. 0: unlimited.",
        enforced_by="messaging.policies.validation:check_retention",
    ),
    Policy(
        name="tenant_admin_rate_calls",
        kind=m.Count,
        unit="calls/s",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Calls of the admin API a second that keys of the tenant may make, after a burst of ten seconds' worth; further "
        "ones are answered with 429. They are counted over all web processes. 0: unlimited.",
        enforced_by="tenants.call_rates:CallRates.take",
    ),
)
