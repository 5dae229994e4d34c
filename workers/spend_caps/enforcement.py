"""Has brokers do what spend caps that are reached demand, and lifts it when they are not any more; tells at thresholds.

What is demanded is a part of the tenant's state in the feed: brokers enforce it from then on by their own copy, and nobody is asked
when something is published. It is lifted when the cap is raised or removed, when the month turns, and when it is no longer known
what was spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q

from messaging import logs
from messaging.errors import MagnetarError
from messaging.policies.ceilings import THRESHOLDS
from messaging.policies.spending import SPEND_RATES
from tenants.access import Actor, platform_actor
from tenants.actions.change import PendingChange, change
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.alerts import sentences
from workers.alerts.notices import TenantRef, say
from workers.environment import Environment
from workers.runs import Renew
from workers.spend_caps.models import SpendCap
from workers.spend_caps.spent import Spent, spent_of

log = logs.get_logger("magnetar.worker")


def caps_of(tenant_uid: str) -> list[SpendCap]:
    with platform_scope():
        return list(SpendCap.objects.filter(tenant_uid=tenant_uid))


def demanded(caps: Iterable[SpendCap], spent: Spent) -> dict[str, Any]:
    """The shape of `messaging.adminrpc.feed.SpendState`; empty where no cap is reached."""
    reached = sorted((cap for cap in caps if spent.reaches(cap)), key=lambda cap: cap.amount_minor)
    stop = next((cap for cap in reached if cap.action == SpendCap.Then.STOP), None)
    throttles = [cap.rates for cap in reached if cap.action == SpendCap.Then.THROTTLE]
    rates = {name: [rates[name] for rates in throttles if rates.get(name)] for name in SPEND_RATES}
    least = {name: min(values) for name, values in rates.items() if values}
    return {**({"stopped": _why(stop, spent)} if stop else {}), **({"rates": least} if least else {})}


def _why(cap: SpendCap, spent: Spent) -> str:
    return (
        f"tenant {cap.tenant} has reached its spend cap of {cap.money} for {spent.month:%B %Y}, set by {cap.whose}: nothing "
        "more can be published until the cap is raised or removed, or the month is over (UTC); what is stored can be consumed"
    )


def follow(changing: PendingChange, tenant: Tenant, now: datetime) -> bool:
    """Brings what brokers do for `tenant` up to date, within the change; whether it was not."""
    wanted = demanded(caps_of(tenant.uid), spent_of(tenant.uid, now))
    with platform_scope():
        row = Tenant.objects.filter(uid=tenant.uid).first()
    if row is None or row.spend == wanted:
        return False
    before, row.spend = row.spend, wanted
    row.save(update_fields=["spend"])
    changing.audit("spend_cap.enforce", row.name, row.name, {"spend": before}, {"spend": wanted})
    changing.publish_tenant(row)
    return True


def look_at_spend(environment: Environment, renew: Renew) -> int:
    """For how many tenants something changed. One that cannot be looked at holds up no other."""
    now, changed = environment.now(), 0
    actor = platform_actor("service:worker")
    for tenant in _concerned():
        renew()
        try:
            changed += _look(actor, tenant, now)
        except MagnetarError as error:
            log.warning("spend-not-looked-at", tenant=tenant.name, why=error.message)
    return changed


def _concerned() -> list[Tenant]:
    """Those that have a cap, and those for which one is still enforced."""
    with platform_scope():
        with_caps = SpendCap.objects.values("tenant_uid")
        return list(Tenant.objects.filter(Q(uid__in=with_caps) | ~Q(spend={})).order_by("name"))


def _look(actor: Actor, tenant: Tenant, now: datetime) -> bool:
    caps, spent = caps_of(tenant.uid), spent_of(tenant.uid, now)
    tell(tenant, caps, spent, now)
    if tenant.spend == demanded(caps, spent):
        return False
    with change(actor, must_confirm=False) as changing:  # a broker that is away gets it when it is back
        return follow(changing, tenant, now)


def tell(tenant: Tenant, caps: Sequence[SpendCap], spent: Spent, now: datetime) -> None:
    """Of each cap the highest threshold that is reached, once a month."""
    for cap in caps:
        percent = spent.percent_of(cap) or 0
        threshold = max((threshold for threshold in THRESHOLDS if percent >= threshold), default=0)
        if not threshold:
            continue
        say(
            now,
            TenantRef(tenant.name, tenant.uid),
            "spend_cap",
            f"spend cap {cap.set_by} {cap.money} {cap.action} {spent.month:%Y-%m} {threshold}",
            *sentences.spend_cap(
                tenant.name,
                cap.money,
                cap.set_by == SpendCap.SetBy.PLATFORM,
                percent,
                threshold,
                spent.text,
                spent.month,
                spent.until,
                _consequence(cap),
            ),
        )


def _consequence(cap: SpendCap) -> str:
    if cap.action == SpendCap.Then.STOP:
        return sentences.spend_cap_then("")
    rates = ", ".join(f"{name} = {cap.rates[name]}" for name in SPEND_RATES if cap.rates.get(name))
    return sentences.spend_cap_then(rates)
