"""Labels: of a tenant, set here; of a namespace, its properties. A change counts for the whole month (UTC) in which it is made, and
from then on; months that are over keep the labels that they ended with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from messaging.errors import InvalidValue, NotFound
from messaging.limits.model import check
from messaging.limits.rest import LABELS
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.models import MonthLabels, Tenant


def set_labels(actor: Actor, name: str, labels: Mapping[str, str]) -> Tenant:
    """All of the tenant's labels. Raises `NotAuthorized`, `NotFound`, `InvalidValue`."""
    require(actor, Action.TENANT_ADMIN, Resource(name))
    given = valid_labels(labels)
    with change(actor) as changing:
        tenant = Tenant.unscoped.filter(name=name).first()
        if tenant is None:
            raise NotFound(f"tenant {name!r} does not exist")
        before = tenant.labels
        if given != before:
            tenant.labels = given
            tenant.save(update_fields=["labels"])
            remember(tenant.uid, "", given)
            changing.audit("tenant.set_labels", name, name, {"labels": before}, {"labels": given})
    return tenant


def valid_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """By key. Raises `InvalidValue`."""
    check("labels", dict(labels), LABELS)
    for text in (text for pair in labels.items() for text in pair):
        if not text or not text.isprintable() or text != text.strip():
            raise InvalidValue(f"label {text[:40]!r} is not valid: use printable characters, without spaces at the ends")
    return dict(sorted(labels.items()))


def remember(tenant_uid: str, namespace: str, labels: Mapping[str, str], now: datetime | None = None) -> None:
    """These are the labels of this month, within the transaction that sets them."""
    rows = MonthLabels.unscoped.filter(tenant_uid=tenant_uid, namespace=namespace)
    last = rows.order_by("-month").first()
    if dict(labels) != (last.labels if last else {}):
        month = (now or datetime.now(UTC)).date().replace(day=1)
        rows.update_or_create(
            month=month,
            defaults={"labels": dict(labels)},
            create_defaults={**_whose(tenant_uid, namespace), "labels": dict(labels)},
        )


def _whose(tenant_uid: str, namespace: str) -> dict[str, str]:
    return {"tenant_uid": tenant_uid, "namespace": namespace}
