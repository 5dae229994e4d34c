"""A tenant with a price plan and hours of usage, as the usage job leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenants.access import platform_actor
from tenants.models import Tenant
from workers.billing import actions
from workers.detail_models import UsageDetail
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.rating.units import METERS

GIB = 2**30
MARCH, APRIL, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4, 5))
HOUR = timedelta(hours=1)
PLAN: dict[str, Any] = {
    "plan": "standard",
    "version": 1,
    "currency": "EUR",
    "in_force_from": "2026-01-01T00:00:00Z",
    "base_fee": "29.00",
    "prices": [
        {"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": [{"up_to": "10", "price": "0.50"}, {"price": "0.30"}]},
        {"meter": "messages_in", "unit": "million messages", "price": "0.40", "included": "1"},
    ],
}


def tenant_of(name: str = "acme") -> Tenant:
    return Tenant.unscoped.create(name=name)


def with_plan(tenant: Tenant, document: Mapping[str, Any] = PLAN, starts_at: datetime = MARCH) -> None:
    actor = platform_actor()
    actions.publish_plan(actor, document, now=starts_at)
    actions.assign_plan(actor, tenant.name, str(document["plan"]), starts_at)


def run_of(run_id: str, started_at: datetime) -> UsageRun:
    run, _ = UsageRun.objects.get_or_create(
        run_id=run_id,
        defaults={"outcome": "succeeded", "requested_at": started_at, "started_at": started_at, "finished_at": started_at},
    )
    return run


def use(tenant: Tenant, hour: datetime, run_id: str = "run-1", topic: str = "orders/new", **quantities: int) -> None:
    """Usage of one topic (without one: of the tenant) in one hour, in place of what was there; the hour's pointer goes to the
    run."""
    run = run_of(run_id, hour + HOUR)
    namespace = f"{tenant.name}/{topic.partition('/')[0]}"
    UsageHour.unscoped.update_or_create(
        hour=hour,
        tenant_uid=tenant.uid,
        namespace=namespace if topic else "",
        topic=f"persistent://{tenant.name}/{topic}" if topic else "",
        defaults={
            "tenant": tenant.name,
            "run": run,
            **dict.fromkeys(METERS, 0),
            **quantities,
        },
    )
    for model in (UsageHour, UsageDetail):
        model.unscoped.filter(hour=hour).update(run=run)
    UsagePartition.objects.update_or_create(
        hour=hour, defaults={"run": run, "checksum": "", "inputs": run_id, "rows": 1, "updated_at": hour + HOUR}
    )


def use_part(tenant: Tenant, hour: datetime, subscription: str, key: str, topic: str = "orders/new", **quantities: int) -> None:
    """Whose part of a topic's usage it was. After `use`."""
    UsageDetail.unscoped.create(
        hour=hour,
        tenant=tenant.name,
        tenant_uid=tenant.uid,
        namespace=f"{tenant.name}/{topic.partition('/')[0]}" if topic else "",
        topic=f"persistent://{tenant.name}/{topic}" if topic else "",
        subscription=subscription,
        key=key,
        run=UsagePartition.objects.get(hour=hour).run,
        **quantities,
    )
