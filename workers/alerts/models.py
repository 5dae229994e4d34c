"""Alert rules and where each stands, notices, and where notices are sent."""

from __future__ import annotations

import secrets
from typing import ClassVar

import msgspec
from django.db import models

from messaging.json_types import converted
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.of_tenant import TOPIC_LENGTH_MAX, OfTenant, new_id


def new_secret() -> str:
    return secrets.token_urlsafe(32)


class NotificationTarget(OfTenant):
    """Where a tenant's notices go besides the console: one row a tenant. `secret` signs what the webhook is sent."""

    webhook_url = models.CharField(max_length=2000, blank=True, default="")
    secret = models.CharField(max_length=64, default=new_secret)
    mail_to = models.JSONField(default=list)
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX, blank=True, default="")  # full name
    pattern_calls_on = models.DateField(null=True)  # the day (UTC) that `pattern_calls` is of
    failing = models.JSONField(null=True)  # channel -> `Failing`; null: what was sent last arrived everywhere
    pattern_calls = models.IntegerField(default=0, db_default=0)  # calls of the webhook for rules with a pattern

    objects: ClassVar[ScopedManager[NotificationTarget]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid"], name="one_notification_target_a_tenant")]

    def __str__(self) -> str:
        return f"notices of {self.tenant}"


class TopicStanding(msgspec.Struct, kw_only=True):
    """Where one topic of a pattern stands. `partitions` as those of a rule. `unknown`: it could not be looked at, and this
    is how it stood before."""

    value: int = 0
    counter: int | None = None
    partitions: dict[str, list[int | None]] = {}
    above_since_ms: int | None = None
    firing: bool = False
    unknown: bool = False


class AlertRule(OfTenant):
    """Fires when the value has been at `threshold` or above for `hold_s`, and is over when it is below `clear`. One whose topic
    `is_pattern` does so for each topic that matches by itself; its value is then the greatest of them."""

    class Kind(models.TextChoices):
        BACKLOG_ENTRIES = "backlog_entries"  # of one subscription, or the largest
        BACKLOG_BYTES = "backlog_bytes"
        BACKLOG_AGE_S = "backlog_age_s"  # of the oldest message that is not acknowledged
        NO_CONSUMER = "no_consumer"  # of one subscription, or of any; the value is 1, of a partitioned topic one a partition
        BLOCKED = "blocked"  # the same: its consumers take no more of what there is
        MESSAGES_GROW = "messages_grow"  # of a dead-letter topic: how many came since the last look
        PUBLISH_THROTTLED = "publish_throttled"  # how often producers were held back since the last look

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=32, choices=Kind.choices)
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX)
    is_pattern = models.BooleanField(default=False)
    subscription = models.CharField(max_length=NAME_LENGTH_MAX, blank=True, default="")
    threshold = models.PositiveBigIntegerField(default=1)
    clear = models.PositiveBigIntegerField(default=1)
    hold_s = models.PositiveIntegerField(default=0)
    runbook_url = models.CharField(max_length=500, blank=True, default="")  # what whoever is told is to do
    silenced_until = models.DateTimeField(null=True)  # its notices are written and not sent
    silenced_by = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True, default="")
    silence_reason = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField()
    # Where it stands
    value = models.BigIntegerField(default=0)
    counter = models.BigIntegerField(null=True)  # of the last look, where the value is a rise
    partitions = models.JSONField(default=dict)  # of a partitioned topic: index -> [value, counter or null]
    topics = models.JSONField(default=dict)  # of a pattern: full name -> `TopicStanding`
    topics_left_out = models.BooleanField(default=False)  # more match than are looked at
    above_since = models.DateTimeField(null=True)
    firing = models.BooleanField(default=False)
    looked_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=500, blank=True, default="")  # why it could not be looked at

    objects: ClassVar[ScopedManager[AlertRule]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant}"

    @property
    def by_topic(self) -> list[tuple[str, TopicStanding]]:
        """Of a pattern: those that fire first, then by value."""
        standings = converted(self.topics, dict[str, TopicStanding])
        return sorted(standings.items(), key=lambda item: (not item[1].firing, -item[1].value, item[0]))

    @property
    def by_partition(self) -> list[tuple[int, int]]:
        """(index, value), the largest values first; empty unless the topic is partitioned."""
        return sorted(
            ((int(index), int(value)) for index, (value, _) in self.partitions.items()), key=lambda item: (-item[1], item[0])
        )


class PlatformAlert(models.Model):
    """Where an alert of the platform stands: `disk`, in per cent of the data directory's that is used."""

    name = models.CharField(primary_key=True, max_length=32)
    value = models.BigIntegerField(default=0)
    above_since = models.DateTimeField(null=True)
    firing = models.BooleanField(default=False)
    looked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class Notice(OfTenant):
    """One thing that was said, once: `subject` is unique in a tenant. Those of the platform have no tenant: its uid is empty."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    subject = models.CharField(max_length=300)
    # alert_fired, alert_over, key_expires, budget, mail_limit, webhook_limit, disk_low, disk_over, ceiling, spend_cap, test
    kind = models.CharField(max_length=32)
    title = models.CharField(max_length=300)
    text = models.TextField()
    at = models.DateTimeField()
    rule = models.CharField(max_length=32, blank=True, default="")  # of which alert rule
    runbook_url = models.CharField(max_length=500, blank=True, default="")
    mail_to = models.JSONField(default=list)  # further recipients, besides those of the tenant's notices
    delivered = models.JSONField(default=dict)  # channel -> how it went

    objects: ClassVar[ScopedManager[Notice]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["-at", "id"]
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "subject"], name="one_notice_a_subject")]
        indexes = [
            models.Index(fields=["tenant_uid", "-at"], name="notice_by_tenant"),
            models.Index(fields=["rule", "-at"], name="notice_by_rule", condition=~models.Q(rule="")),
        ]

    def __str__(self) -> str:
        return self.title


class MailUsage(OfTenant):
    """How many mails a tenant's notices and reports have caused on a day (UTC), each recipient counted; `refused`: beyond the
    limit."""

    day = models.DateField()
    sent = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)

    objects: ClassVar[ScopedManager[MailUsage]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "day"], name="one_count_of_mails_a_day")]

    def __str__(self) -> str:
        return f"mails of {self.tenant} on {self.day}"
