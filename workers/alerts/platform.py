"""What administrators of the platform are told: that the disk of the data directory is nearly full. Their notices are those of no
tenant: the uid is empty."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction

from messaging.permissions.model import NOTHING, Action
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.scoping import platform_scope
from workers.alerts import sentences
from workers.alerts.actions import check_target
from workers.alerts.models import NotificationTarget, PlatformAlert, new_secret
from workers.alerts.notices import TenantRef, say
from workers.alerts.rules import Standing, judge
from workers.alerts.target_topics import checked_topic
from workers.environment import Environment

PLATFORM = TenantRef("", "")
DISK = "disk"
MIB = 1 << 20


class Disk(NamedTuple):
    """In bytes. `free`: for processes that are not root's."""

    total: int
    free: int

    @property
    def used_percent(self) -> int:
        return 100 - 100 * self.free // self.total if self.total else 0


def disk_of(path: Path) -> Disk:
    """Raises `OSError`."""
    usage = shutil.disk_usage(path)
    return Disk(usage.total, usage.free)


def look_at_disk(environment: Environment) -> PlatformAlert:
    """Says once that the disk is nearly full, and once that it is not any more. Raises `OSError`."""
    settings, now = environment.settings, environment.now()
    disk = disk_of(settings.data_path)
    with transaction.atomic():
        row, _ = PlatformAlert.objects.select_for_update().get_or_create(name=DISK)
        before = Standing(row.firing, row.above_since)
        threshold, clear = settings.disk_alert_percent, settings.disk_alert_clear_percent
        after = judge(before, disk.used_percent, now, threshold=threshold, clear=clear, hold_s=0)
        row.firing, row.above_since, row.value, row.looked_at = after.firing, after.above_since, disk.used_percent, now
        row.save()
        if after.firing != before.firing:
            word = "is nearly full" if after.firing else "has room again"
            say(
                now,
                PLATFORM,
                "disk_low" if after.firing else "disk_over",
                f"{DISK} {word} {now.timestamp():.0f}",
                *sentences.disk(
                    str(settings.data_path), disk.used_percent, disk.free // MIB, threshold, clear, firing=after.firing
                ),
            )
    return row


def platform_target() -> NotificationTarget:
    """Not stored, where there is none."""
    with platform_scope():
        return NotificationTarget.objects.filter(tenant_uid="").first() or NotificationTarget(tenant_uid="", secret="")


def set_platform_target(actor: Actor, webhook_url: str, mail_to: list[str], topic: str = "") -> NotificationTarget:
    """As `workers.alerts.actions.set_target`, for administrators of the platform."""
    require(actor, Action.SUPERUSER, NOTHING)
    check_target(webhook_url, mail_to)
    topic = checked_topic(actor, PLATFORM.name, topic) if topic else ""
    with transaction.atomic(), platform_scope():
        before = platform_target()
        fields: dict[str, Any] = {"webhook_url": webhook_url, "mail_to": mail_to, "topic": topic, "failing": None}
        if before.webhook_url != webhook_url or not before.secret:
            fields["secret"] = new_secret()
        target, _ = NotificationTarget.objects.update_or_create(tenant_uid="", defaults=fields)
        record(
            actor,
            "notifications.set",
            "",
            "notifications",
            after={"webhook": bool(webhook_url), "mail_to": mail_to, "topic": topic},
        )
    return target
