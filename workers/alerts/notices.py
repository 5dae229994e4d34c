"""Says something to a tenant, once, and mails it within the tenant's limit of a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError, transaction

from messaging.settings import Settings
from tenants.scoping import platform_scope
from workers import mail
from workers.alerts import sentences
from workers.alerts.models import MailUsage, Notice, NotificationTarget
from workers.former_members import without_former
from workers.queue import ask_for
from workers.schedule import SEND_NOTICE


class OfRule(NamedTuple):
    """Which alert rule says it. `silence`: why the notice is not sent; "": it is."""

    rule: str
    runbook_url: str = ""
    silence: str = ""


NO_RULE = OfRule("")


class TenantRef(NamedTuple):
    """The tenant that is told something."""

    name: str
    uid: str


def say(
    now: datetime,
    told: TenantRef,
    kind: str,
    subject: str,
    title: str,
    text: str,
    mail_to: Sequence[str] = (),
    of: OfRule = NO_RULE,
) -> Notice | None:
    """Writes a notice and has it sent where the tenant wants it, and mailed to `mail_to`; None if that subject was said before."""
    try:
        with transaction.atomic(), platform_scope():
            notice = Notice.objects.create(
                tenant=told.name,
                tenant_uid=told.uid,
                kind=kind,
                subject=subject,
                title=title[:300],
                text=text,
                at=now,
                mail_to=list(mail_to),
                rule=of.rule,
                runbook_url=of.runbook_url,
                delivered={"silenced": of.silence} if of.silence else {},
            )
            if of.silence:
                return notice
            target = NotificationTarget.objects.filter(tenant_uid=told.uid).first()
            if mail_to or (target is not None and (target.webhook_url or target.mail_to or target.topic)):
                ask_for(SEND_NOTICE, notice=notice.id)
    except IntegrityError:
        return None
    return notice


def send_mail(
    settings: Settings,
    now: datetime,
    told: TenantRef,
    to: Sequence[str],
    subject: str,
    text: str,
    files: Sequence[tuple[str, bytes, str]] = (),
) -> str:
    """As `workers.mail.send`, but not to former members; unless the tenant's mails of the day are used up: a notice says so then,
    once a day."""
    current = without_former(told.uid, to)
    if to and not current:
        return sentences.NOBODY_LEFT
    to = current
    if not to or not settings.smtp_url:
        return mail.send(settings, to, subject, text, files)
    if _counted(settings, now, told, len(to)):
        return mail.send(settings, to, subject, text, files)
    most = settings.tenant_mails_per_day_max
    say(
        now,
        told,
        "mail_limit",
        f"mail limit {now.date()}",
        *sentences.mail_limit(told.name, most, now.date()),
    )
    return sentences.mails_used_up(most)


def _counted(settings: Settings, now: datetime, told: TenantRef, count: int) -> bool:
    """Whether so many mails may be sent. They count before they are sent: what fails is not sent without end."""
    with transaction.atomic(), platform_scope():
        row, _ = MailUsage.objects.select_for_update().get_or_create(
            tenant_uid=told.uid, day=now.date(), defaults={"tenant": told.name}
        )
        allowed = row.sent + count <= settings.tenant_mails_per_day_max
        if allowed:
            row.sent += count
        else:
            row.refused += count
        row.save(update_fields=["sent", "refused"])
    return allowed


def mails_refused(now: datetime) -> int:
    """How many mails of the tenant in scope were not sent today."""
    row = MailUsage.objects.filter(day=now.date()).first()
    return row.refused if row is not None else 0
