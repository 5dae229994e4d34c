"""Sets and removes audit streams: checked, and written into the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from messaging.errors import InvalidValue, NotFound
from messaging.permissions.model import NOTHING, Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.models import AuditRecord, Tenant
from tenants.models.record import NO_HASH
from tenants.scoping import platform_scope
from workers.alerts import webhooks
from workers.alerts.models import new_secret
from workers.alerts.target_topics import PLATFORM, checked_topic
from workers.audit_streams.models import AuditStream


def uid_of(tenant: str) -> str:
    """Raises `NotFound`."""
    if tenant == PLATFORM:
        return ""
    with platform_scope():
        uid = Tenant.objects.filter(name=tenant).values_list("uid", flat=True).first()
    if uid is None:
        raise NotFound(f"tenant {tenant!r} does not exist")
    return uid


def records_for(tenant_uid: str) -> QuerySet[AuditRecord]:
    """What a stream sends, of the platform's scope."""
    return AuditRecord.objects.filter(tenant_uid=tenant_uid) if tenant_uid else AuditRecord.objects.all()


def stream_of(tenant: str) -> AuditStream:
    """Raises `NotFound`."""
    with platform_scope():
        stream = AuditStream.objects.filter(tenant_uid=uid_of(tenant)).first()
    if stream is None:
        raise NotFound("there is no stream of this audit log: set one with the URL that it goes to")
    return stream


def newest_id(stream: AuditStream) -> int:
    """The id of the newest record that is to be sent; 0: there is none."""
    with platform_scope():
        return records_for(stream.tenant_uid).order_by("-id").values_list("id", flat=True).first() or 0


def set_stream(actor: Actor, tenant: str, url: str = "", *, topic: str = "", oldest: bool) -> AuditStream:
    """To a webhook, with a new secret where the URL is another, or to a topic. A new stream begins with what is written from now
    on, or with the `oldest` record there is; one that exists goes on where it is, or begins again. Raises `NotAuthorized`,
    `InvalidValue`, `NotFound`."""
    _require(actor, tenant)
    if bool(url) == bool(topic):
        raise InvalidValue("a stream goes to a webhook or to a topic: give one of `url` and `topic`")
    topic = checked_topic(actor, tenant, topic) if topic else ""
    if url:
        webhooks.check_url(url)
    now = datetime.now(UTC)
    fields: dict[str, Any] = {"tenant": tenant, "url": url, "topic": topic, "next_at": now, "failures": 0, "problem": ""}
    with transaction.atomic(), platform_scope():
        tenant_uid = uid_of(tenant)
        before = AuditStream.objects.select_for_update().filter(tenant_uid=tenant_uid).first()
        if before is None or before.url != url:
            fields["secret"] = new_secret()
        record(
            actor,
            "audit_stream.set",
            tenant,
            "audit stream",
            before=_target(before.url, before.topic) if before is not None else None,
            after={**_target(url, topic), "oldest": oldest},
        )
        if oldest:
            fields |= {"sent_id": 0, "sent_hash": NO_HASH, "gaps": 0}
        elif before is None:
            last = records_for(tenant_uid).order_by("-id").values_list("id", "hash").first()
            fields["sent_id"], fields["sent_hash"] = last or (0, NO_HASH)
        stream, _ = AuditStream.objects.update_or_create(
            tenant_uid=tenant_uid, defaults=fields, create_defaults={**fields, "created_at": now}
        )
    return stream


def delete_stream(actor: Actor, tenant: str) -> None:
    """Raises `NotAuthorized`, `NotFound`."""
    _require(actor, tenant)
    with transaction.atomic(), platform_scope():
        stream = stream_of(tenant)
        record(actor, "audit_stream.delete", tenant, "audit stream", before=_target(stream.url, stream.topic))
        stream.delete()


def _target(url: str, topic: str) -> dict[str, str]:
    """As the audit log has it: a URL may hold a secret."""
    return {"topic": topic} if topic else {"host": webhooks.host_of(url)}


def _require(actor: Actor, tenant: str) -> None:
    if tenant == PLATFORM:
        require(actor, Action.SUPERUSER, NOTHING)
    else:  # what is sent there is read there
        require(actor, Action.AUDIT_READ, Resource(tenant))
        require(actor, Action.TENANT_ADMIN, Resource(tenant))
