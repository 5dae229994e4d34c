"""Setting and removing spend caps, each with its audit record. They count at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from messaging.errors import InvalidValue, NotFound
from messaging.permissions.model import Action, Resource
from messaging.policies.spending import SPEND_RATES
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.tenants import existing_tenant
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES, minor_of
from workers.spend_caps.enforcement import follow
from workers.spend_caps.models import SpendCap

RATE_MAX = 2**53 - 1
AMOUNT_MINOR_MAX = 2**53


def set_cap(
    actor: Actor, tenant: str, set_by: str, amount: str, currency: str, action: str, rates: Mapping[str, int] | None = None
) -> SpendCap:
    """Sets the cap of `set_by`, or puts it in the place of the one there is. `rates`: of `SPEND_RATES`, for a cap that throttles.
    Raises `NotAuthorized`, `InvalidValue`, `NotFound`, `NotReady`."""
    _require(actor, tenant, set_by)
    fields = _fields(amount, currency, action, rates or {})
    now = datetime.now(UTC)
    with change(actor) as changing, platform_scope():
        row = existing_tenant(tenant)
        caps = SpendCap.objects.filter(tenant_uid=row.uid, set_by=set_by)
        before = caps.first()
        cap, _ = SpendCap.objects.update_or_create(
            tenant_uid=row.uid,
            set_by=set_by,
            defaults={"tenant": tenant, "changed_at": now, "changed_by": actor.principal.role, **fields},
        )
        changing.audit("spend_cap.set", tenant, f"spend cap of {cap.whose}", before and told(before), told(cap))
        follow(changing, row, now)
    return cap


def remove_cap(actor: Actor, tenant: str, set_by: str) -> None:
    """Raises `NotAuthorized`, `NotFound`, `NotReady`."""
    _require(actor, tenant, set_by)
    with change(actor) as changing, platform_scope():
        row = existing_tenant(tenant)
        cap = existing_cap(row, set_by)
        changing.audit("spend_cap.remove", tenant, f"spend cap of {cap.whose}", told(cap))
        cap.delete()
        follow(changing, row, datetime.now(UTC))


def existing_cap(tenant: Tenant, set_by: str) -> SpendCap:
    """Raises `NotFound`."""
    with platform_scope():
        cap = SpendCap.objects.filter(tenant_uid=tenant.uid, set_by=set_by).first()
    if cap is None:
        raise NotFound(f"tenant {tenant.name!r} has no spend cap that was set by the {set_by[:20]}")
    return cap


def told(cap: SpendCap) -> dict[str, Any]:
    """As the audit log has it."""
    return {"cap": cap.money, "action": cap.action, "rates": cap.rates}


def _require(actor: Actor, tenant: str, set_by: str) -> None:
    """What the platform has set is not for a tenant to lift."""
    require(actor, Action.SUPERUSER if set_by == SpendCap.SetBy.PLATFORM else Action.BILLING_ADMIN, Resource(tenant))


def _fields(amount: str, currency: str, action: str, rates: Mapping[str, int]) -> dict[str, Any]:
    """The columns. Raises `InvalidValue`."""
    if currency not in CURRENCIES:
        raise InvalidValue(f"currency {currency[:10]!r} is not known: use one of {', '.join(sorted(CURRENCIES))}")
    try:
        minor = minor_of(amount, currency, "amount")
    except RatingError as error:
        raise InvalidValue(str(error)) from None
    if not 0 < minor < AMOUNT_MINOR_MAX:
        raise InvalidValue(f"amount {amount!r} is not above 0, or too large")
    if action not in SpendCap.Then.values:
        raise InvalidValue(f"action {action[:20]!r} is not one of {', '.join(SpendCap.Then.values)}")
    given = {name: rate for name, rate in rates.items() if rate}
    if unknown := given.keys() - set(SPEND_RATES):
        raise InvalidValue(f"{', '.join(sorted(unknown))[:200]}: no such rate; there are {', '.join(SPEND_RATES)}")
    if not all(0 < rate <= RATE_MAX for rate in given.values()):
        raise InvalidValue(f"a rate must be from 1 to {RATE_MAX} a second")
    if (action == SpendCap.Then.THROTTLE) != bool(given):
        raise InvalidValue(
            "a cap that throttles needs one rate at least, and one that stops has none: give rates with action throttle alone"
        )
    return {"currency": currency, "amount_minor": minor, "action": action, "rates": given}
