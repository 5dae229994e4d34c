"""Keys: creating and revoking them."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import NamedTuple

from django.conf import settings as django_settings
from django.utils import timezone

from messaging.errors import InvalidName, InvalidValue, NotFound
from messaging.identity import issue_token
from messaging.identity.first_start import superuser_role
from messaging.permissions.model import RESERVED_KEY_NAME_PREFIXES, Action, Resource, key_role
from messaging.protocol.names import entity_name
from tenants import feed
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.quotas import key_to_forget
from tenants.models import Key, Tenant


class NewKey(NamedTuple):
    """`token` is shown to its owner now and never again."""

    key: Key
    token: str


def create_key(actor: Actor, tenant: str, name: str, expires_at: datetime | None = None) -> NewKey:
    """A key with the role ``name@tenant``. It can do what is granted to that role: nothing, until somebody grants it."""
    require(actor, Action.KEY_ADMIN, Resource(tenant))
    entity_name("key", name)
    if name.startswith(RESERVED_KEY_NAME_PREFIXES):
        raise InvalidName(f"key name {name!r} is reserved: choose one that does not begin with {name.partition(':')[0]}:")
    return _create(actor, Key(id=uuid.uuid4().hex, tenant_id=tenant, name=name, role=key_role(name, tenant)), expires_at)


def _create(actor: Actor, key: Key, expires_at: datetime | None) -> NewKey:
    now = timezone.now()
    if expires_at is not None and expires_at <= now:
        raise InvalidValue("the expiry time is in the past: give a time in the future, or none")
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
            key.save()
            changing.audit("key.revoke", tenant, f"{tenant}/{key.id}", after={"name": key.name, **feed.key_state(key)})
        changing.publish_change("key", key.id, feed.key_state(key))
    return key


def create_superuser_key(actor: Actor, expires_at: datetime | None = None) -> NewKey:
    """A further key of the superuser."""
    require(actor, Action.SUPERUSER)
    role = superuser_role(django_settings.MAGNETAR)
    return _create(actor, Key(id=f"superuser-{uuid.uuid4().hex}", name="superuser", role=role), expires_at)
