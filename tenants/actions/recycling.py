"""Namespaces and tenants as they go to the recycle bin of the control plane and come back: each in one transaction.

Rows leave their tables, so no list, look-up or count has to think of the bin; what they were is kept in `RecycledRow`. What belongs
to them is what the database would delete with them, so a new table with a foreign key is part of it without a word here. Topics
stay at the broker under their names, which is told that the namespace is in the bin: it serves none of it and deletes none of it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.core import serializers
from django.db import DEFAULT_DB_ALIAS, models
from django.db.models.deletion import Collector
from django.utils import timezone

from messaging.adminrpc.methods import NAMESPACES_PURGE
from messaging.adminrpc.topics import TopicsList
from messaging.errors import Conflict, NotFound, PreconditionFailed
from messaging.policies.model import Level
from messaging.policies.resolution import Levels, resolve_policy
from tenants import broker, feed
from tenants.access import Actor
from tenants.actions.change import PendingChange
from tenants.broker_settings import policy_defaults
from tenants.models import Key, Namespace, Recycled, RecycledRow, Tenant, TokenIssuer

POLICY = "recycle_bin_retention_hours"
NAMESPACE, TENANT = "namespace", "tenant"
NAMESPACE_ROW, TENANT_ROW, TOPIC_ROW = "tenants.namespace", "tenants.tenant", "tenants.topicpolicies"
KEY_ROW, ISSUER_ROW = "tenants.key", "tenants.tokenissuer"
ROWS_AT_ONCE = 200


def retention_hours(levels: Levels) -> int:
    """For how long what has these policies can be restored if it is deleted now; 0: it is deleted at once."""
    return int(resolve_policy(POLICY, levels, policy_defaults()).value)


def hours_of_namespace(namespace: Namespace) -> int:
    return retention_hours({Level.NAMESPACE: namespace.policies, Level.TENANT: namespace.tenant.policies})


def hours_of_tenant(tenant: Tenant) -> int:
    return retention_hours({Level.TENANT: tenant.policies})


def check_not_recycled(name: str) -> None:
    """Raises `Conflict` for the name of a namespace or tenant in the bin: what it left at the broker would be another one's."""
    row = Recycled.unscoped.filter(name=name).first()
    if row is not None:
        until = "is being deleted for good" if row.purging else f"is in the recycle bin until {row.expires_at:%Y-%m-%d %H:%M} UTC"
        raise Conflict(f"{row.kind} {name!r} {until}: restore it, or delete it for good first")


# --- into it


def new_entry(actor: Actor, kind: str, subject: Namespace | Tenant, hours: int, counts: dict[str, int]) -> Recycled:
    """Within the change that takes it."""
    tenant = subject if isinstance(subject, Tenant) else subject.tenant
    now = timezone.now()
    return Recycled.unscoped.create(
        id=f"{int(now.timestamp() * 1000):012x}-{uuid.uuid4().hex[:12]}",
        kind=kind,
        name=subject.name,
        tenant=tenant.name,
        tenant_uid=tenant.uid,
        deleted_at=now,
        expires_at=now + timedelta(hours=hours),
        deleted_by=actor.principal.role,
        counts=counts,
    )


def take(changing: PendingChange, entry: Recycled, subjects: Iterable[Namespace | Tenant]) -> None:
    """Moves the rows of `subjects`, and all that hangs on them, within the caller's change; namespaces before their tenant."""
    for subject in subjects:
        _keep(entry, _what_goes_with(subject))
        subject.delete()
    _tell_gone(changing, entry)


class _Everything(Collector):
    """All rows that a deletion takes, as objects."""

    def can_fast_delete(self, objs: Any, from_field: Any = None) -> bool:
        return False


def _what_goes_with(subject: models.Model) -> Iterator[models.Model]:
    collector = _Everything(using=DEFAULT_DB_ALIAS, origin=subject)
    collector.collect([subject])
    return chain.from_iterable(collector.data.values())


def _keep(entry: Recycled, rows: Iterable[models.Model]) -> None:
    as_they_are = serializers.serialize("python", rows)  # the one for JSON cuts times to milliseconds
    kept = [
        RecycledRow(recycled=entry, model=row["model"], key=str(row["pk"]), row=row)
        for row in json.loads(json.dumps(as_they_are, default=datetime.isoformat))
    ]
    RecycledRow.unscoped.bulk_create(kept, batch_size=ROWS_AT_ONCE)


def namespaces_in(entry: Recycled) -> list[str]:
    return keys_in(entry, NAMESPACE_ROW)


def keys_in(entry: Recycled, model: str) -> list[str]:
    return list(RecycledRow.unscoped.filter(recycled=entry, model=model).values_list("key", flat=True))


def _tell_gone(changing: PendingChange, entry: Recycled) -> None:
    """That they are in the bin comes first: policies that end after it concern no topic."""
    namespaces = namespaces_in(entry)
    changing.publish_all("recycled", dict.fromkeys(namespaces, feed.recycled_state(entry.tenant_uid)))
    changing.publish_all("topic", dict.fromkeys(keys_in(entry, TOPIC_ROW)))
    changing.publish_all("namespace", dict.fromkeys(namespaces))
    if entry.kind == TENANT:
        issuers = RecycledRow.unscoped.filter(recycled=entry, model=ISSUER_ROW).values_list("row", flat=True)
        changing.publish_all("key", dict.fromkeys(keys_in(entry, KEY_ROW)))
        changing.publish_all("issuer", {f"{entry.name}/{row['fields']['name']}": None for row in issuers})
        changing.publish_all("tenant", {entry.name: None})


# --- out of it


def bring_back(changing: PendingChange, entry: Recycled) -> None:
    """Raises `Conflict` where something else has taken the place of a row that it cannot do without."""
    now = timezone.now()
    namespaces = namespaces_in(entry)
    there: set[tuple[str, Any]] = set()
    for row in _in_order(entry):
        for restored in serializers.deserialize("python", [row.row], ignorenonexistent=True):
            if _fits(restored.object, row.model in (NAMESPACE_ROW, TENANT_ROW), there):
                restored.save(force_insert=True)
    Namespace.unscoped.filter(name__in=namespaces).update(restored_at=now)
    entry.delete()
    _tell_back(changing, entry.tenant if entry.kind == TENANT else "", namespaces)


def _tell_back(changing: PendingChange, tenant: str, namespaces: list[str]) -> None:
    """`tenant` "": it was there all the time. That they are out of the bin comes last: then their topics follow all policies."""
    if tenant:
        changing.publish_tenant(Tenant.unscoped.get(name=tenant))
    for namespace in Namespace.unscoped.filter(name__in=namespaces).select_related("tenant"):
        changing.publish_namespace(namespace)
        changing.publish_all("topic", {row.topic: feed.topic_state(row) for row in namespace.topic_policies.all()})
    if tenant:
        keys = Key.unscoped.filter(tenant=tenant).select_related("tenant")
        issuers = TokenIssuer.unscoped.filter(tenant=tenant).select_related("tenant")
        changing.publish_all("key", {key.id: feed.key_state(key) for key in keys})
        changing.publish_all("issuer", {f"{tenant}/{row.name}": feed.issuer_state(row) for row in issuers})
    changing.publish_all("recycled", dict.fromkeys(namespaces))


def _in_order(entry: Recycled) -> Iterator[RecycledRow]:
    """What others refer to first."""
    first = {TENANT_ROW: 0, NAMESPACE_ROW: 1, "tenants.team": 2}
    order = sorted(RecycledRow.unscoped.filter(recycled=entry).values_list("model", "id"), key=lambda row: first.get(row[0], 3))
    for start in range(0, len(order), ROWS_AT_ONCE):
        ids = [row_id for _, row_id in order[start : start + ROWS_AT_ONCE]]
        rows = RecycledRow.unscoped.in_bulk(ids)
        yield from (rows[row_id] for row_id in ids)


def _fits(row: models.Model, needed: bool, there: set[tuple[str, Any]]) -> bool:
    """Whether it refers to nothing that is gone, such as a person, and nothing has taken its place, such as another role of that
    person. `there`: what is known to be there. Raises `Conflict` where such a row is `needed`."""
    gone = not all(_is_there(row, field, there) for field in row._meta.concrete_fields if field.is_relation)
    taken = not gone and _is_taken(row)
    if needed and (taken or gone):
        raise Conflict(f"{row} cannot be restored: {'another one has its name' if taken else 'its tenant does not exist'}")
    return not taken and not gone


def _is_taken(row: models.Model) -> bool:
    manager = type(row)._base_manager
    unique = [
        constraint.fields
        for constraint in row._meta.constraints
        if isinstance(constraint, models.UniqueConstraint) and constraint.fields
    ]
    unique += [(field.name,) for field in row._meta.concrete_fields if field.unique]
    return any(manager.filter(**{name: getattr(row, name) for name in names}).exists() for names in unique)


def _is_there(row: models.Model, field: Any, there: set[tuple[str, Any]]) -> bool:
    of, key = field.remote_field.model, getattr(row, field.attname)
    if key is None or of is type(row) or (of._meta.label, key) in there:
        return True
    if not of._base_manager.filter(pk=key).exists():
        return False
    there.add((of._meta.label, key))
    return True


# --- away


def begin_purge(changing: PendingChange, entry: Recycled) -> None:
    """From now on it cannot be restored, and the broker keeps nothing of it."""
    entry.purging, entry.expires_at = True, timezone.now()
    entry.save()
    changing.publish_all("recycled", dict.fromkeys(namespaces_in(entry)))


def delete_topics(entry: Recycled, renew: Callable[[], None]) -> None:
    """What the broker has of it. What is cut off is finished by the next call. Raises what the broker raises."""
    for namespace in namespaces_in(entry):
        renew()
        try:
            broker.rpc().call(NAMESPACES_PURGE, TopicsList(namespace=namespace))
        except PreconditionFailed:  # the broker missed that it is not in the bin any more
            feed.confirm(feed.newest_version())
            broker.rpc().call(NAMESPACES_PURGE, TopicsList(namespace=namespace))


def due(now: datetime) -> list[Recycled]:
    """Those whose time is over, or whose purge was cut off."""
    return list(Recycled.unscoped.filter(expires_at__lte=now).order_by("expires_at")[:ROWS_AT_ONCE])


# --- asking


def listed(kind: str, tenant: str = "", after: str = "", limit: int = 100) -> list[Recycled]:
    """Those that can be restored, by id."""
    rows = Recycled.unscoped.filter(kind=kind, purging=False, id__gt=after, **({"tenant": tenant} if tenant else {}))
    return list(rows.filter(expires_at__gt=timezone.now()).order_by("id")[:limit])


def restorable(kind: str, recycle_id: str, tenant: str = "") -> Recycled:
    """Raises `NotFound`."""
    rows = Recycled.unscoped.filter(kind=kind, purging=False, id=recycle_id, **({"tenant": tenant} if tenant else {}))
    entry = rows.filter(expires_at__gt=timezone.now()).first()
    if entry is None:
        raise NotFound(f"the recycle bin has no {kind} with the id {recycle_id[:64]!r}")
    return entry
