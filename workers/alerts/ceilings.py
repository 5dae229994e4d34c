"""Says that a tenant nears a ceiling that is set on it: once a day for each threshold."""

from __future__ import annotations

from messaging import logs
from messaging.errors import MagnetarError
from messaging.policies.ceilings import CEILINGS, Ceiling
from tenants.actions.ceilings import tenant_ceilings
from tenants.models import Tenant
from workers.alerts import sentences
from workers.alerts.notices import TenantRef, say
from workers.environment import Environment
from workers.runs import Renew

log = logs.get_logger("magnetar.worker")
EVERY_MIN = 10  # the broker counts what is used, which takes longer the more there is


def look_at_ceilings(environment: Environment, renew: Renew) -> int:
    """How many notices were written. A tenant that cannot be looked at holds up no other."""
    now, said = environment.now(), 0
    if now.minute % EVERY_MIN:
        return 0
    for tenant in Tenant.objects.exclude(policies={}).order_by("name"):
        if not CEILINGS.keys() & tenant.policies.keys():
            continue
        renew()
        try:
            ceilings = tenant_ceilings(tenant, environment.rpc)
        except MagnetarError as error:
            log.warning("ceilings-not-looked-at", tenant=tenant.name, why=error.message)
            continue
        for ceiling in ceilings:
            said += ceiling.policy.name in tenant.policies and _say(environment, tenant, ceiling)
    return said


def _say(environment: Environment, tenant: Tenant, ceiling: Ceiling) -> bool:
    now, used_percent, name = environment.now(), ceiling.used_percent, ceiling.policy.name
    threshold = ceiling.threshold
    if not threshold:
        return False
    notice = say(
        now,
        TenantRef(tenant.name, tenant.uid),
        "ceiling",
        f"ceiling {name} {ceiling.limit} {threshold} {now.date()}",
        *sentences.ceiling(tenant.name, name, ceiling.policy.title, ceiling.used_text, ceiling.limit_text, used_percent, threshold),
    )
    return notice is not None
