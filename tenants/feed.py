"""The feed to the brokers: changes are written in the transaction of what they tell, and confirmed after it.

`append` takes the lock of the one `FeedHead` row first, so versions have neither gap nor overtaking: a broker that holds version V
knows everything up to V. `confirm` returns once the broker holds a version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from messaging import errors
from messaging.adminrpc.schema import Change, FeedApply
from tenants import broker
from tenants.models import FeedHead, Grant, Key, Namespace, OutboxChange, SubscriptionGrant, Tenant

KEPT_CHANGES = 10_000  # a broker that lags by more gets everything at once
_ATTEMPTS = 3

_confirmed = 0  # the newest version that a broker confirmed to this process; for metrics alone


def newest_version() -> int:
    return FeedHead.objects.filter(id=1).values_list("version", flat=True).first() or 0


def confirmed_version() -> int:
    return _confirmed


def lock_head() -> FeedHead:
    """The head, locked until the transaction ends (SQLite: the transaction itself is the lock). An action takes it before it reads
    what it is about to change: writers of the control plane go one after the other."""
    head, _ = FeedHead.objects.select_for_update().get_or_create(id=1)
    return head


def append(head: FeedHead, kind: str, key: str, state: dict[str, Any] | None) -> int:
    """Adds a change within the caller's transaction and returns its version."""
    head.version += 1
    OutboxChange.objects.create(version=head.version, kind=kind, key=key, state=state)
    if head.version - head.compacted_version >= 2 * KEPT_CHANGES:
        head.compacted_version = head.version - KEPT_CHANGES
        OutboxChange.objects.filter(version__lte=head.compacted_version).delete()
    head.save()
    return head.version


def confirm(version: int) -> None:
    """Returns when the broker holds `version`. Raises `NotReady` if it does not say so: the change is saved all the same."""
    global _confirmed
    after = version - 1
    try:
        for _ in range(_ATTEMPTS):
            message = since(after)
            held = broker.rpc().call("feed.apply", message).version
            if held >= version:
                _confirmed = max(_confirmed, held)
                return
            after = held
    except errors.MagnetarError as error:
        raise errors.NotReady(f"{_SAVED} ({error.message})") from None
    raise errors.NotReady(f"{_SAVED} (it stays at version {after} of {version})")


_SAVED = "the change is saved, but the broker has not confirmed it: it takes effect as soon as the broker is back; do not repeat it"


@transaction.atomic
def since(version: int) -> FeedApply:
    """Changes after `version`; everything if that is 0 or older than what is kept, or from a database that is not this one."""
    head = FeedHead.objects.filter(id=1).first() or FeedHead()
    if version <= 0 or version < head.compacted_version or version > head.version:
        return FeedApply(from_version=0, to_version=head.version, full=True, changes=_everything(head.version))
    rows = OutboxChange.objects.filter(version__gt=version, version__lte=head.version)
    changes = [Change(version=row.version, kind=row.kind, key=row.key, state=row.state) for row in rows]
    return FeedApply(from_version=version, to_version=head.version, changes=changes)


# --- states ------------------------------------------------------------------------------------------------------------------


def tenant_state(tenant: Tenant) -> dict[str, Any]:
    return {"uid": tenant.uid, "admin_roles": tenant.admin_roles, "allowed_clusters": tenant.allowed_clusters}


def key_state(key: Key) -> dict[str, Any]:
    expires_ms = int(key.expires_at.timestamp() * 1000) if key.expires_at else 0
    return {
        "role": key.role,
        "tenant": key.tenant_id or "",
        "tenant_uid": key.tenant.uid if key.tenant else "",
        "revoked": key.revoked_at is not None,
        "expires_ms": expires_ms,
    }


def namespace_state(namespace: Namespace) -> dict[str, Any]:
    grants = Grant.unscoped.filter(namespace=namespace)
    restrictions = SubscriptionGrant.unscoped.filter(namespace=namespace)
    return _namespace_state(namespace, grants, restrictions)


def _namespace_state(namespace: Namespace, grants: Iterable[Grant], restrictions: Iterable[SubscriptionGrant]) -> dict[str, Any]:
    roles: dict[str, list[str]] = {}
    topics: dict[str, dict[str, list[str]]] = {}
    subscriptions: dict[str, list[str]] = {}
    for grant in grants:
        (topics.setdefault(grant.topic, {}) if grant.topic else roles)[grant.role] = grant.actions
    for restriction in restrictions:
        subscriptions.setdefault(restriction.subscription, []).append(restriction.role)
    return {
        "tenant_uid": namespace.tenant.uid,
        "policies": namespace.policies,
        "grants": roles,
        "topic_grants": topics,
        "subscription_roles": subscriptions,
    }


def _everything(version: int) -> list[Change]:
    grants: dict[str, list[Grant]] = {}
    for grant in Grant.unscoped.all():
        grants.setdefault(grant.namespace_id, []).append(grant)
    restrictions: dict[str, list[SubscriptionGrant]] = {}
    for restriction in SubscriptionGrant.unscoped.all():
        restrictions.setdefault(restriction.namespace_id, []).append(restriction)
    changes = [Change(version=version, kind="tenant", key=t.name, state=tenant_state(t)) for t in Tenant.unscoped.all()]
    for namespace in Namespace.unscoped.select_related("tenant"):
        state = _namespace_state(namespace, grants.get(namespace.name, ()), restrictions.get(namespace.name, ()))
        changes.append(Change(version=version, kind="namespace", key=namespace.name, state=state))
    changes += [Change(version=version, kind="key", key=k.id, state=key_state(k)) for k in Key.unscoped.select_related("tenant")]
    return changes
