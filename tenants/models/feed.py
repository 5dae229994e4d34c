"""The outbox: what brokers must know of the control plane's truth, in the order in which it became true."""

from __future__ import annotations

from django.db import models


class FeedHead(models.Model):
    """One row. Its lock orders the writers: whoever holds it is the only one who assigns versions, so they have no gap."""

    version = models.BigIntegerField(default=0)  # of the newest change
    compacted_version = models.BigIntegerField(default=0)  # changes up to this one are gone: who lags behind it needs everything


class OutboxChange(models.Model):
    """The whole state of one entity as of `version`; None: it is gone. The shape is `messaging.adminrpc.schema.Change`."""

    version = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=16)
    key = models.CharField(max_length=600)
    state = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["version"]
