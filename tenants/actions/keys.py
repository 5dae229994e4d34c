"""Keys: creating and revoking them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.utils import timezone

from messaging.client_address import networks as parsed_networks
from messaging.errors import Conflict, InvalidName, InvalidValue, NotFound, PreconditionFailed
from messaging.identity import issue_token
from messaging.identity.first_start import superuser_role
from messaging.permissions.model import RESERVED_KEY_NAME_PREFIXES, Action, Resource, key_role
from messaging.permissions.roles import KEY_ACTIONS
from messaging.protocol.names import entity_name
from tenants import feed
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.key_rights import gives_rights, require_rights_of_key
from tenants.actions.lasting import require_as_long
from tenants.actions.members import check_pattern, scope_of
from tenants.actions.quotas import key_life_max, key_to_forget
from tenants.models import Key, Tenant


class KeyUse(NamedTuple):
    """What a key is made for: of produce and consume, in a namespace (local name; "": all), on topics that match a pattern."""

    actions: Sequence[str]
    namespace: str = ""
    topics: str = ""


class NewKey(NamedTuple):
    """`token` is shown to its owner now and never again."""

    key: Key
    token: str


def create_key(
    actor: Actor,
    tenant: str,
    name: str,
    expires_at: datetime | None = None,
    scope: Sequence[KeyUse] | None = None,
    networks: Sequence[str] = (),
) -> NewKey:
    """A key with the role ``name@tenant``. It can do what is granted to that role: nothing, until somebody grants it. With a
    `scope` it can do that, and nothing else. What it can do the actor must be able to do, too. It can be used from `networks`
    alone, if any.

    Raises `InvalidValue`, `NotFound` for a namespace of the scope, `NotAuthorized`, `PreconditionFailed` for too long a life.
    """
    require(actor, Action.KEY_ADMIN, Resource(tenant))
    entity_name("key", name)
    if name.startswith(RESERVED_KEY_NAME_PREFIXES):
        raise InvalidName(f"key name {name!r} is reserved: choose one that does not begin with {name.partition(':')[0]}:")
    key = Key(id=uuid.uuid4().hex, tenant_id=tenant, name=name, role=key_role(name, tenant), networks=_checked_networks(networks))
    if scope is not None:
        key.scope = [_checked_use(tenant, use) for use in scope]
        if not key.scope:
            raise InvalidValue("the scope of the key is empty: name at least one use, or leave it out")
    require_rights_of_key(actor, key)
    _require_as_long(actor, key, expires_at)
    return _create(actor, key, expires_at)


def rotate_key(actor: Actor, tenant: str, key_id: str, overlap_s: int) -> NewKey:
    """Another key that can do what this one can and lives as long, or as long as keys may by now. This one goes on for `overlap_s`
    seconds: time to give the new one to its clients. Raises `NotFound`, `Conflict` for a key that is not in use or is being
    replaced already, `NotAuthorized` for one that can do more than the actor."""
    require(actor, Action.KEY_ADMIN, Resource(tenant))
    former = Key.unscoped.filter(tenant=tenant, id=key_id).first()
    now = timezone.now()
    if former is None:
        raise NotFound(f"key {key_id[:64]!r} does not exist")
    if former.revoked_at is not None or (former.expires_at is not None and former.expires_at <= now):
        raise Conflict(f"key {key_id!r} was revoked or has expired: create a new one")
    if former.replaced_by.filter(revoked_at__isnull=True).exists():
        raise Conflict(f"key {key_id!r} is being replaced already: revoke it once its clients use the other one")
    require_rights_of_key(actor, former)
    life = _life_after(former)
    expires_at = now + life if life else None
    key = Key(id=uuid.uuid4().hex, tenant_id=tenant, name=former.name, role=former.role, networks=former.networks)
    key.scope, key.replaces = former.scope, former
    _require_as_long(actor, key, expires_at)
    return _create(actor, key, expires_at, former_ends_at=now + timedelta(seconds=overlap_s))


def _require_as_long(actor: Actor, key: Key, expires_at: datetime | None) -> None:
    """Raises `NotAuthorized` where the token would be worth something after the actor's right to make keys has ended."""
    where = Resource(key.tenant_id or "")
    require_as_long(actor, Action.KEY_ADMIN, where, None if gives_rights(key) else expires_at)


def _life_after(former: Key) -> timedelta | None:
    """How long the key that replaces it lives; None: permanently."""
    life = former.expires_at - former.created_at if former.expires_at else None
    most = key_life_max(former.tenant_id or "")
    if most is None:
        return life
    return min(life, timedelta(days=most.value)) if life else timedelta(days=most.value)


def revoke_token(actor: Actor, tenant: str, key_id: str) -> Key:
    """A token that leaked, by the id of its key. Raises `NotFound` for one of somebody else's."""
    require(actor, Action.KEY_ADMIN, Resource(tenant))
    if not Key.unscoped.filter(tenant=tenant, id=key_id).exists():
        raise NotFound(f"the token is of no key of tenant {tenant!r}")
    return revoke_key(actor, tenant, key_id)


def _checked_use(tenant: str, use: KeyUse) -> dict[str, Any]:
    check_pattern(use.topics)
    where = scope_of(tenant, use.namespace, use.topics)
    actions = [str(action) for action in KEY_ACTIONS if action in use.actions]
    unknown = sorted(set(use.actions) - set(actions))
    if unknown or not actions:
        raise InvalidValue(f"a key is made for produce, consume or both, not for {', '.join(unknown)[:80] or 'nothing'}")
    return {"actions": actions, "namespace": where.namespace, "topics": where.topics}


def _checked_networks(networks: Sequence[str]) -> list[str]:
    try:
        return [str(network) for network in parsed_networks(networks)]
    except ValueError as error:
        raise InvalidValue(f"networks: {error}; use addresses or networks such as 192.0.2.0/24") from None


def _check_life(tenant: str, expires_at: datetime | None, now: datetime) -> None:
    most = key_life_max(tenant) if tenant else None
    if most is not None and (expires_at is None or expires_at > now + timedelta(days=most.value, minutes=1)):
        raise PreconditionFailed(f"a key may live for {most.set_by} = {most.value} days at most: give an earlier expiry time")


def _create(actor: Actor, key: Key, expires_at: datetime | None, former_ends_at: datetime | None = None) -> NewKey:
    now = timezone.now()
    if expires_at is not None and expires_at <= now:
        raise InvalidValue("the expiry time is in the past: give a time in the future, or none")
    _check_life(key.tenant_id or "", expires_at, now)
    key.expires_at, key.created_by = expires_at, actor.principal.role
    # The token exists only in this answer, so it must not be lost to a broker that is away: brokers ask for keys they do not know.
    with change(actor, must_confirm=False) as changing:
        tenant = key.tenant_id or ""
        if tenant and not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        forgotten = key_to_forget(tenant) if tenant else None
        if forgotten is not None:
            changing.publish_change("key", forgotten.id, None)
            forgotten.delete()
        key.save(force_insert=True)
        changing.audit("key.create", tenant, f"{tenant}/{key.id}", after={"name": key.name, **feed.key_state(key)})
        changing.publish_change("key", key.id, feed.key_state(key))
        former = key.replaces
        if former is not None and former_ends_at is not None:
            former.expires_at = min(former_ends_at, former.expires_at or former_ends_at)
            former.save(update_fields=["expires_at"])
            changing.audit("key.replace", tenant, f"{tenant}/{former.id}", after={"by": key.id, **feed.key_state(former)})
            changing.publish_change("key", former.id, feed.key_state(former))
    expires_s = int(expires_at.timestamp()) if expires_at else None
    return NewKey(key, issue_token(django_settings.MAGNETAR, key.role, key.id, int(now.timestamp()), expires_s))


def revoke_key(actor: Actor, tenant: str, key_id: str) -> Key:
    """From its return on the token opens nothing, and its connections are closed. Idempotent. A superuser's key: `tenant` ""."""
    if tenant:
        require(actor, Action.KEY_ADMIN, Resource(tenant))
    else:
        require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        key = Key.unscoped.filter(tenant=tenant or None, id=key_id).first()
        if key is None:
            raise NotFound(f"key {key_id!r} does not exist")
        if key.revoked_at is None:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])
            changing.audit("key.revoke", tenant, f"{tenant}/{key.id}", after={"name": key.name, **feed.key_state(key)})
        changing.publish_change("key", key.id, feed.key_state(key))
    return key


def create_superuser_key(actor: Actor, expires_at: datetime | None = None) -> NewKey:
    """A further key of the superuser."""
    require(actor, Action.SUPERUSER)
    require_as_long(actor, Action.SUPERUSER)  # whatever its end: it makes others without one
    role = superuser_role(django_settings.MAGNETAR)
    return _create(actor, Key(id=f"superuser-{uuid.uuid4().hex}", name="superuser", role=role), expires_at)
