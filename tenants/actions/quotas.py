"""How much one tenant may have in the control plane. Every broker holds all of it in memory, and nobody pays for its own."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.db.models import QuerySet, Sum

from messaging.errors import PreconditionFailed
from messaging.policies.model import Level
from messaging.policies.resolution import resolve_policy
from messaging.policies.texts import counted
from tenants.broker_settings import policy_defaults
from tenants.models import Key, Namespace, Recycled, Tenant, TopicPolicies

STATES_BYTES_MAX = 16 << 20  # of the states of one tenant's namespaces together, as the feed tells them, and of their topics
TOPIC_STATE_BYTES = 512  # added to that of each topic with policies: what holding it costs a broker besides


class CountLimit(NamedTuple):
    """`set_by`: the policy or setting that says so."""

    value: int
    set_by: str


def _most(tenant: str, things: str) -> CountLimit:
    """Of its policy and the setting, whichever is lower."""
    setting, policy = f"{things}_per_tenant_max", f"max_{things}_per_tenant"
    most = CountLimit(getattr(django_settings.MAGNETAR, setting), setting)
    policies = Tenant.unscoped.filter(name=tenant).values_list("policies", flat=True).first()
    of_tenant = resolve_policy(policy, {Level.TENANT: policies}, policy_defaults()).value
    return CountLimit(of_tenant, policy) if 0 < of_tenant < most.value else most


def check_another_namespace(tenant: str) -> None:
    """Raises `PreconditionFailed`."""
    most = _most(tenant, "namespaces")
    count = Namespace.unscoped.filter(tenant=tenant).count()
    count += Recycled.unscoped.filter(tenant=tenant, kind="namespace").count()  # so that there is room to restore them
    if count >= most.value:
        raise PreconditionFailed(
            f"tenant {tenant!r} has {counted(count, 'namespace')}, with those in the recycle bin, and has reached {most.set_by} = "
            f"{most.value}: delete one "
            "first, or have it raised"
        )


def check_states(tenant: str, before_bytes: int, after_bytes: int) -> None:
    """Before the state of a namespace or topic that has `before_bytes` becomes one of `after_bytes`. What is too large already may
    be made smaller. Raises `PreconditionFailed`."""
    if after_bytes <= before_bytes:
        return
    held = _sum(Namespace.unscoped.filter(tenant=tenant)) + _sum(TopicPolicies.unscoped.filter(namespace__tenant=tenant))
    total = held - before_bytes + after_bytes
    if total > STATES_BYTES_MAX:
        raise PreconditionFailed(
            f"the namespaces and topics of tenant {tenant!r} would have {total} bytes of policies, grants and roles together; "
            f"at most {STATES_BYTES_MAX} are allowed: remove some"
        )


def _sum(rows: QuerySet[Any]) -> int:
    return rows.aggregate(total=Sum("state_bytes"))["total"] or 0


def key_life_max(tenant: str) -> CountLimit | None:
    """For how many days a key may live: its policy or the setting, whichever is lower. None: for any time."""
    setting, policy = "key_lifetime_days_max", "max_key_lifetime_days"
    policies = Tenant.unscoped.filter(name=tenant).values_list("policies", flat=True).first()
    of_tenant = CountLimit(resolve_policy(policy, {Level.TENANT: policies}, policy_defaults()).value, policy)
    limits = [CountLimit(getattr(django_settings.MAGNETAR, setting), setting), of_tenant]
    return min((limit for limit in limits if limit.value), key=lambda limit: limit.value, default=None)


def key_to_forget(tenant: str) -> Key | None:
    """The oldest revoked key where a tenant has as many as it may: it goes for another one. None where there is room. Raises
    `PreconditionFailed` where all are in use."""
    most = _most(tenant, "keys")
    of_tenant = Key.unscoped.filter(tenant=tenant)
    count = of_tenant.count()
    if count < most.value:
        return None
    oldest = of_tenant.filter(revoked_at__isnull=False).order_by("revoked_at").first()
    if oldest is None or count > most.value:  # one that goes makes no room where there are too many
        raise PreconditionFailed(
            f"tenant {tenant!r} has {counted(count, 'key')} and has reached {most.set_by} = {most.value}: revoke one first, or "
            "have it raised"
        )
    return oldest
