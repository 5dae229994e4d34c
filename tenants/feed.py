"""The feed to the brokers: changes are written in the transaction that makes them and confirmed after it.

`append` first locks the single `FeedHead` row, so versions have no gaps and are committed in order: a broker with version V knows
everything up to V. `since` reads the feed in bounded pages, and `confirm` returns once the broker has a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast, Length

from messaging import errors
from messaging.adminrpc.base import Request
from messaging.adminrpc.feed import ENTITY_BYTES_MAX, EVERY_BROKER, PAGE_BYTES_MAX, FeedApply, FeedChange
from messaging.adminrpc.methods import FEED_APPLY, FEED_PULL
from messaging.permissions.model import key_role
from tenants import broker
from tenants.models import (
    DynamicSetting,
    FailureDomain,
    FeedHead,
    Grant,
    IsolationPolicy,
    Key,
    Namespace,
    NamespaceBundles,
    OutboxChange,
    RecycledRow,
    SubscriptionGrant,
    Tenant,
    TokenIssuer,
    TopicPolicies,
)

KEPT_CHANGES = 10_000  # a broker that lags by more gets everything at once
KEPT_BYTES = 32 << 20  # the same by the size of their states, or somebody with a large one could fill the disk by repeating it
_ATTEMPTS = 3
_ROWS_AT_ONCE = 200


def newest_version() -> int:
    return FeedHead.objects.filter(id=1).values_list("version", flat=True).first() or 0


def lock_head() -> FeedHead:
    """The head, locked until the transaction ends (SQLite: the transaction itself is the lock). An action takes it before it reads
    what it is about to change: writers of the control plane go one after the other."""
    head, _ = FeedHead.objects.select_for_update().get_or_create(id=1)
    return head


def append_all(head: FeedHead, kind: str, states: Mapping[str, dict[str, Any] | None]) -> int:
    """`append` for many, at the cost of a few queries. They are states that were told before, or small."""
    rows = [
        OutboxChange(version=head.version + 1 + index, kind=kind, key=key, state=state)
        for index, (key, state) in enumerate(states.items())
    ]
    OutboxChange.objects.bulk_create(rows, batch_size=_ROWS_AT_ONCE)
    head.version += len(rows)
    head.kept_bytes += sum(len(msgspec.json.encode(state)) for state in states.values())
    if head.version - head.compacted_version >= 2 * KEPT_CHANGES or head.kept_bytes >= 2 * KEPT_BYTES:
        _compact(head)
    head.save()
    return head.version


def append(head: FeedHead, kind: str, key: str, state: dict[str, Any] | None) -> int:
    """Adds a change within the caller's transaction and returns its version. Raises `PreconditionFailed` for a state that is too
    large for a page of the feed."""
    size = _size(kind, key, state)
    head.version += 1
    OutboxChange.objects.create(version=head.version, kind=kind, key=key, state=state)
    head.kept_bytes += size
    if head.version - head.compacted_version >= 2 * KEPT_CHANGES or head.kept_bytes >= 2 * KEPT_BYTES:
        _compact(head)
    head.save()
    return head.version


def _compact(head: FeedHead) -> None:
    """Keeps the newest changes: `KEPT_CHANGES` of them at most, of `KEPT_BYTES` at most but for the last one."""
    sizes = OutboxChange.objects.annotate(bytes=Length(Cast("state", TextField()))).order_by("-version")
    kept_bytes, oldest = 0, head.version
    for version, size in sizes.values_list("version", "bytes")[:KEPT_CHANGES].iterator(chunk_size=_ROWS_AT_ONCE):
        if version < head.version and kept_bytes + (size or 0) > KEPT_BYTES:
            break
        kept_bytes, oldest = kept_bytes + (size or 0), version
    head.kept_bytes, head.compacted_version = kept_bytes, oldest - 1
    OutboxChange.objects.filter(version__lt=oldest).delete()


def _size(kind: str, key: str, state: dict[str, Any] | None) -> int:
    """In bytes. Raises `PreconditionFailed` for a state that is too large for a page of the feed."""
    size = len(msgspec.json.encode(state))
    if size <= ENTITY_BYTES_MAX:
        return size
    last = OutboxChange.objects.filter(kind=kind, key=key).order_by("-version").first()
    if last is None or len(msgspec.json.encode(last.state)) < size:  # what is too large already may be made smaller
        raise errors.PreconditionFailed(
            f"{kind} {key} would have {size} bytes of policies, grants and roles; at most {ENTITY_BYTES_MAX} are allowed: "
            "remove some, or use another namespace"
        )
    return size


def confirm(version: int) -> None:
    """Returns when the broker has `version`. Raises `NotReady` if it does not confirm it; the change is saved anyway."""
    after = version - 1
    attempts = _ATTEMPTS
    try:
        while attempts:
            page = since(after)
            if page.full and page.next_key:  # more than one message holds: the broker asks for it, page by page
                held = broker.rpc().call(FEED_PULL, Request()).version
            else:
                held = broker.rpc().call(FEED_APPLY, page).version
            if version <= held <= newest_version():
                return
            attempts -= not after < held < version  # pages that follow each other are no attempts
            after = held  # above the newest: the broker holds what a database restored from a backup has forgotten
    except errors.MagnetarError as error:
        raise errors.NotReady(f"{_SAVED} ({error.message})") from None
    raise errors.NotReady(f"{_SAVED} (it stays at version {after} of {version})")


_SAVED = (
    "the change was saved, but the broker has not confirmed it: it takes effect as soon as the broker is back, so do not repeat it"
)


@transaction.atomic
def since(version: int, feed_id: str = "", after: str = "") -> FeedApply:
    """The page of changes after `version`. Of everything, if `version` is 0 or older than what is kept, or is not of this database;
    `after` is the `next_key` of the page before."""
    head = FeedHead.objects.filter(id=1).first() or FeedHead(feed_id="")
    other = feed_id not in ("", head.feed_id)
    if after or version <= 0 or version < head.compacted_version or version > head.version or other:
        changes, next_key = _page_of_everything(head.version, after)
        newest = newest_version()  # rows may be newer than the head that was read before them
        held = 0 if after or other else max(version, 0)
        return FeedApply(
            from_version=held,
            to_version=head.version,
            full=True,
            changes=changes,
            feed_id=head.feed_id,
            newest_version=newest,
            next_key=next_key,
        )
    rows = OutboxChange.objects.filter(version__gt=version, version__lte=head.version).iterator(chunk_size=_ROWS_AT_ONCE)
    listed, _ = _page(FeedChange(version=row.version, kind=row.kind, key=row.key, state=row.state) for row in rows)
    return FeedApply(
        from_version=version,
        to_version=listed[-1].version if listed else head.version,
        changes=listed,
        feed_id=head.feed_id,
        newest_version=head.version,
    )


def _page(changes: Iterable[FeedChange]) -> tuple[list[FeedChange], bool]:
    """As many as a page holds, one at least; and whether some are left over."""
    page: list[FeedChange] = []
    size = 0
    for change in changes:
        if page and size >= PAGE_BYTES_MAX:
            return page, True
        size += len(msgspec.json.encode(change))
        page.append(change)
    return page, False


# --- states ------------------------------------------------------------------------------------------------------------------


def tenant_state(tenant: Tenant) -> dict[str, Any]:
    return {
        "uid": tenant.uid,
        "admin_roles": tenant.admin_roles,
        "allowed_clusters": tenant.allowed_clusters,
        "policies": tenant.policies,
        **({"spend": tenant.spend} if tenant.spend else {}),
    }


def key_state(key: Key) -> dict[str, Any]:
    expires_ms = int(key.expires_at.timestamp() * 1000) if key.expires_at else 0
    return {
        "role": key.role,
        "tenant": key.tenant_id or "",
        "tenant_uid": key.tenant.uid if key.tenant else "",
        "revoked": key.revoked_at is not None,
        "expires_ms": expires_ms,
        **({} if key.scope is None else {"scope": key.scope}),
        **({"networks": key.networks} if key.networks else {}),
    }


def issuer_state(row: TokenIssuer) -> dict[str, Any]:
    return {
        "tenant_uid": row.tenant.uid,
        "issuer": row.issuer,
        "audience": row.audience,
        "role_claim": row.role_claim,
        "roles": {value: key_role(name, row.tenant_id) for value, name in row.roles.items()},
        "clock_skew_s": row.clock_skew_s,
        "keys": row.keys,
    }


def broker_state() -> dict[str, Any]:
    return {"settings": dict(DynamicSetting.objects.values_list("name", "value"))}


def isolation_state(row: IsolationPolicy) -> dict[str, Any]:
    return {
        "namespaces": row.namespaces,
        "primary": row.primary,
        "secondary": row.secondary,
        "min_limit": row.min_limit,
        "usage_threshold": row.usage_threshold,
        "unload_scope": row.unload_scope,
    }


def failure_domain_state(row: FailureDomain) -> dict[str, Any]:
    return {"brokers": row.brokers}


def recycled_state(tenant_uid: str) -> dict[str, Any]:
    return {"tenant_uid": tenant_uid}


def topic_state(row: TopicPolicies) -> dict[str, Any]:
    return {"policies": row.policies, "subscriptions": row.subscriptions}


def namespace_state(namespace: Namespace) -> dict[str, Any]:
    grants = Grant.unscoped.filter(namespace=namespace)
    restrictions = SubscriptionGrant.unscoped.filter(namespace=namespace)
    boundaries = NamespaceBundles.unscoped.filter(namespace=namespace).values_list("boundaries", flat=True).first()
    return _namespace_state(namespace, grants, restrictions, boundaries)


def _namespace_state(
    namespace: Namespace, grants: Iterable[Grant], restrictions: Iterable[SubscriptionGrant], boundaries: list[int] | None
) -> dict[str, Any]:
    roles: dict[str, list[str]] = {}
    topics: dict[str, dict[str, list[str]]] = {}
    subscriptions: dict[str, list[str]] = {}
    ends: dict[str, dict[str, int]] = {}
    for grant in grants:
        (topics.setdefault(grant.topic, {}) if grant.topic else roles)[grant.role] = grant.actions
        if grant.expires_at is not None:
            ends.setdefault(grant.topic, {})[grant.role] = int(grant.expires_at.timestamp() * 1000)
    for restriction in restrictions:
        subscriptions.setdefault(restriction.subscription, []).append(restriction.role)
    return {
        "tenant_uid": namespace.tenant.uid,
        "policies": namespace.policies,
        "grants": roles,
        "topic_grants": topics,
        "subscription_roles": subscriptions,
        **({"grant_ends_ms": ends} if ends else {}),
        **({"boundaries": boundaries} if boundaries else {}),
        **({"restored_ms": int(namespace.restored_at.timestamp() * 1000)} if namespace.restored_at else {}),
    }


def _page_of_everything(version: int, after: str) -> tuple[list[FeedChange], str]:
    """The changes of a page, and after which key the next one begins; "" if there is none."""
    kind, _, key = after.partition(" ")
    page, more = _page(_everything(version, kind, key))
    return page, f"{page[-1].kind} {page[-1].key}" if more else ""


def _everything(version: int, after_kind: str, after_key: str) -> Iterator[FeedChange]:
    """All entities behind that one, by kind and key."""
    kinds = list(_READERS)
    for kind in kinds[kinds.index(after_kind) if after_kind else 0 :]:
        for key, state in _READERS[kind](after_key if kind == after_kind else ""):
            yield FeedChange(version=version, kind=kind, key=key, state=state)


def _tenants(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for tenant in Tenant.unscoped.filter(name__gt=after).order_by("name").iterator(chunk_size=_ROWS_AT_ONCE):
        yield tenant.name, tenant_state(tenant)


def _keys(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in Key.unscoped.select_related("tenant").filter(id__gt=after).order_by("id").iterator(chunk_size=_ROWS_AT_ONCE):
        yield key.id, key_state(key)


def _namespaces(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    while rows := list(Namespace.unscoped.select_related("tenant").filter(name__gt=after).order_by("name")[:_ROWS_AT_ONCE]):
        after = rows[-1].name
        grants: dict[str, list[Grant]] = {}
        for grant in Grant.unscoped.filter(namespace__in=rows):
            grants.setdefault(grant.namespace_id, []).append(grant)
        restrictions: dict[str, list[SubscriptionGrant]] = {}
        for restriction in SubscriptionGrant.unscoped.filter(namespace__in=rows):
            restrictions.setdefault(restriction.namespace_id, []).append(restriction)
        boundaries = dict(NamespaceBundles.unscoped.filter(namespace__in=rows).values_list("namespace", "boundaries"))
        for row in rows:
            state = _namespace_state(row, grants.get(row.name, ()), restrictions.get(row.name, ()), boundaries.get(row.name))
            yield row.name, state


def _topics(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in TopicPolicies.unscoped.filter(topic__gt=after).order_by("topic").iterator(chunk_size=_ROWS_AT_ONCE):
        yield row.topic, topic_state(row)


def _issuers(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """There are few."""
    names = ((f"{row.tenant_id}/{row.name}", row) for row in TokenIssuer.unscoped.select_related("tenant"))
    for name, row in sorted(names, key=lambda each: each[0]):
        if name > after:
            yield name, issuer_state(row)


def _recycled(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = RecycledRow.unscoped.filter(model="tenants.namespace", recycled__purging=False, key__gt=after).order_by("key")
    for name, tenant_uid in rows.values_list("key", "recycled__tenant_uid").iterator(chunk_size=_ROWS_AT_ONCE):
        yield name, recycled_state(tenant_uid)


def _broker_settings(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if after < EVERY_BROKER and DynamicSetting.objects.exists():
        yield EVERY_BROKER, broker_state()


def _isolation(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in IsolationPolicy.objects.filter(name__gt=after).order_by("name"):
        yield row.name, isolation_state(row)


def _failure_domains(after: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in FailureDomain.objects.filter(name__gt=after).order_by("name"):
        yield row.name, failure_domain_state(row)


_READERS = {  # in the order of a full feed
    "recycled": _recycled,
    "tenant": _tenants,
    "namespace": _namespaces,
    "key": _keys,
    "topic": _topics,
    "broker": _broker_settings,
    "issuer": _issuers,
    "isolation": _isolation,
    "failure_domain": _failure_domains,
}
