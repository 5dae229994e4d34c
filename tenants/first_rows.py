"""What a new database begins with: tenant `public` with `public/default`, somebody who may sign in, the key of the superuser."""

from __future__ import annotations

from django.db import transaction

from messaging.identity import SUPERUSER_KEY_ID, read_secret
from messaging.settings import Settings
from tenants import feed
from tenants.audit.chain import append
from tenants.models import AuditRecord, Key, Namespace, Tenant, User

CONSOLE_USER = "admin"


@transaction.atomic
def create_first_rows(settings: Settings) -> None:
    """Does nothing in a database that was used before: what somebody deleted stays deleted. No broker has to confirm: it asks."""
    head = feed.lock_head()
    if head.version > 0:
        return
    tenant = Tenant.unscoped.create(name="public", allowed_clusters=[settings.cluster_name])
    feed.append(head, "tenant", tenant.name, feed.tenant_state(tenant))
    namespace = Namespace.unscoped.create(name="public/default", tenant=tenant)
    feed.append(head, "namespace", namespace.name, feed.namespace_state(namespace))
    role = settings.superuser_roles[0] if settings.superuser_roles else "admin"
    key = Key.unscoped.create(id=SUPERUSER_KEY_ID, name="superuser", role=role)
    feed.append(head, "key", key.id, feed.key_state(key))
    User.objects.create_superuser(CONSOLE_USER, password=read_secret(settings, "console-password"))
    append([AuditRecord(role="service:web", action="platform.create", resource="platform")])
