"""Where notices of a tenant go, and what is sent again: checked, and written into the audit log. `rule_actions` has the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from messaging.errors import NotFound, PreconditionFailed, QuotaExceeded
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record
from tenants.models import Tenant
from tenants.scoping import tenant_scope
from workers import mail
from workers.alerts import sentences, webhooks
from workers.alerts.models import Notice, NotificationTarget, new_secret
from workers.alerts.notices import TenantRef, say
from workers.alerts.target_topics import checked_topic
from workers.of_tenant import new_id
from workers.queue import ask_for
from workers.schedule import SEND_NOTICE

MAIL_MAX = 10
REPLAYED_MAX = 100  # notices of one request
NOTICES_SCANNED_MAX = 10_000  # that one request looks at
TESTS_PER_HOUR_MAX = 20


class Replayed(NamedTuple):
    """So many are sent again; `following`: the time of the next one, None if that were all."""

    notices: int
    following: datetime | None


def target_of(tenant: str) -> NotificationTarget:
    """Not stored, where there is none."""
    with tenant_scope(tenant):
        return NotificationTarget.objects.first() or NotificationTarget(tenant=tenant, tenant_uid=uid_of(tenant), secret="")


def set_target(actor: Actor, tenant: str, webhook_url: str, mail_to: list[str], topic: str = "") -> NotificationTarget:
    """A webhook gets a new secret each time it is set. Raises `NotAuthorized`, `InvalidValue`, `NotFound` for the namespace of the
    topic."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    check_target(webhook_url, mail_to)
    topic = checked_topic(actor, tenant, topic) if topic else ""
    with transaction.atomic(), tenant_scope(tenant):
        before = NotificationTarget.objects.first()
        fields = {"tenant": tenant, "webhook_url": webhook_url, "mail_to": mail_to, "topic": topic, "failing": None}
        if before is None or before.webhook_url != webhook_url:
            fields["secret"] = new_secret()
        target, _ = NotificationTarget.objects.update_or_create(tenant_uid=uid_of(tenant), defaults=fields)
        after = {"webhook": bool(webhook_url), "mail_to": mail_to, "topic": topic}
        record(actor, "notifications.set", tenant, "notifications", after=after)
    return target


def send_test(actor: Actor, tenant: str) -> Notice:
    """Has a notice sent to everywhere where notices go; how it went is said in the notice. Raises `NotAuthorized`,
    `PreconditionFailed` where they go nowhere, `QuotaExceeded` for too many."""
    require(actor, Action.OPERATE, Resource(tenant))
    limit_rate(actor)
    now = datetime.now(UTC)
    with transaction.atomic(), tenant_scope(tenant):
        target = target_of(tenant)
        if not (target.webhook_url or target.mail_to or target.topic):
            raise PreconditionFailed(f"notices of tenant {tenant} are sent nowhere: say first where")
        if Notice.objects.filter(kind="test", at__gt=now - timedelta(hours=1)).count() >= TESTS_PER_HOUR_MAX:
            raise QuotaExceeded(f"{TESTS_PER_HOUR_MAX} test notices were sent within an hour, which is the limit: wait a while")
        by = actor.principal.role
        told = TenantRef(tenant, target.tenant_uid)
        notice = say(now, told, "test", f"test {new_id()}", *sentences.test(by))
        assert notice is not None, "its subject is new"
        record(actor, "notifications.test", tenant, "notifications", after={"notice": notice.id})
    return notice


def replay_notice(actor: Actor, tenant: str, notice_id: str) -> Notice:
    """Has a notice sent to the webhook again. Raises `NotAuthorized`, `NotFound`, `PreconditionFailed` without a webhook."""
    require(actor, Action.OPERATE, Resource(tenant))
    limit_rate(actor)
    with transaction.atomic(), tenant_scope(tenant):
        notice: Notice | None = Notice.objects.filter(id=notice_id).first()
        if notice is None:
            raise NotFound(f"notice {notice_id[:64]!r} does not exist")
        _check_webhook(tenant)
        send_again(notice)
        record(actor, "notice.replay", tenant, f"notice {notice.id}", after={"notices": 1})
    return notice


def replay_notices(actor: Actor, tenant: str, since: datetime, until: datetime | None, *, failed_only: bool) -> Replayed:
    """The same of all within a time, the oldest first and at most `REPLAYED_MAX`; `failed_only`: that did not arrive."""
    require(actor, Action.OPERATE, Resource(tenant))
    limit_rate(actor)
    with transaction.atomic(), tenant_scope(tenant):
        _check_webhook(tenant)
        rows = Notice.objects.filter(at__gte=since).order_by("at", "id")
        rows = rows.filter(at__lt=until) if until is not None else rows
        chosen: list[Notice] = []
        following: datetime | None = None
        for number, notice in enumerate(rows[: NOTICES_SCANNED_MAX + 1]):
            if number == NOTICES_SCANNED_MAX or len(chosen) == REPLAYED_MAX:
                following = notice.at
                break
            if not (failed_only and str(notice.delivered.get("webhook", "")).startswith("answered 2")):
                chosen.append(notice)
        for notice in chosen:
            send_again(notice)
        record(actor, "notice.replay", tenant, "notices", after={"notices": len(chosen), "since": since.isoformat()})
    return Replayed(len(chosen), following)


def _check_webhook(tenant: str) -> None:
    if not target_of(tenant).webhook_url:
        raise PreconditionFailed(f"tenant {tenant} has no webhook: say first where notices are sent")


def send_again(notice: Notice) -> None:
    """To the webhook. `tasks` counts the call as any other."""
    notice.delivered.pop("webhook", None)
    notice.save(update_fields=["delivered"])
    ask_for(SEND_NOTICE, notice=notice.id)


def check_target(webhook_url: str, mail_to: list[str]) -> None:
    """Raises `InvalidValue`."""
    if webhook_url:
        webhooks.check_url(webhook_url)
    mail.recipients(mail_to, MAIL_MAX)


def uid_of(tenant: str) -> str:
    uid = Tenant.objects.filter(name=tenant).values_list("uid", flat=True).first()
    if uid is None:
        raise NotFound(f"tenant {tenant!r} does not exist")
    return uid
