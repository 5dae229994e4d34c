"""History: what topics carried and held (ADR 71). Written by a task, from the points that brokers take."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager


class HistorySeries(models.Model):
    """Of a tenant, a namespace, a topic or partition, or a subscription, as one broker saw it. `key` is made of all of these
    (`tenants.history.keys`). `last_ms`: the end of its last point."""

    key = models.CharField(max_length=64, unique=True)
    tenant_uid = models.CharField(max_length=32)
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)  # tenant/namespace; "": the tenant's own
    topic = models.TextField(blank=True)
    subscription = models.TextField(blank=True)
    broker_id = models.CharField(max_length=2 * NAME_LENGTH_MAX)
    last_ms = models.BigIntegerField(default=0)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[HistorySeries]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["tenant_uid", "last_ms"], name="history_of_tenant"),
            models.Index(fields=["last_ms"], name="history_by_last"),
        ]


class HistoryChunk(models.Model):
    """Points of one series, packed (`messaging.history.points`): minutes of one hour, or hours of one day. `start_ms`: of that hour
    or day, UTC."""

    MINUTES, HOURS = 0, 1

    series = models.ForeignKey(HistorySeries, on_delete=models.CASCADE, related_name="chunks")
    tier = models.SmallIntegerField()
    start_ms = models.BigIntegerField()
    points = models.BinaryField()
    summed = models.BooleanField(default=False)  # of minutes: they are in a point of their hour

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[HistoryChunk]] = ScopedManager("series__tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints = [models.UniqueConstraint(fields=["series", "tier", "start_ms"], name="history_chunk_once")]
        indexes = [models.Index(fields=["tier", "start_ms"], name="history_by_time")]


class HistoryKnown(models.Model):
    """What is known of a time: `messaging.adminrpc.history.HistorySpan`. It names no topic; `tenant_uid` "" is all tenants."""

    broker_id = models.CharField(max_length=2 * NAME_LENGTH_MAX)
    kind = models.CharField(max_length=16)
    tenant_uid = models.CharField(max_length=32, blank=True)
    from_ms = models.BigIntegerField()
    until_ms = models.BigIntegerField()

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[HistoryKnown]] = ScopedManager("tenant_uid", by_uid=True, shared=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes = [models.Index(fields=["broker_id", "until_ms"], name="history_known_by_end")]


class HistoryCursor(models.Model):
    """The last batch of a broker that is stored: changed in the transaction that stores it."""

    broker_id = models.CharField(primary_key=True, max_length=2 * NAME_LENGTH_MAX)
    batch = models.BigIntegerField()
