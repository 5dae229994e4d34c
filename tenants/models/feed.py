"""The outbox: the changes of the control plane that brokers receive, in the order of their versions."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from messaging.protocol.names import TOPIC_LENGTH_MAX
from tenants.models.tenant import Namespace
from tenants.scoping import ScopedManager


def new_feed_id() -> str:
    return uuid.uuid4().hex


class FeedHead(models.Model):
    """One row. Its lock orders the writers: whoever holds it is the only one who assigns versions, so they have no gap."""

    feed_id = models.CharField(max_length=32, default=new_feed_id)  # which database the versions are of
    version = models.BigIntegerField(default=0)  # of the newest change
    compacted_version = models.BigIntegerField(default=0)  # changes up to this one are gone: who lags behind it needs everything
    event_sequence = models.BigIntegerField(default=0)  # of the newest change of a topic's policies
    kept_bytes = models.BigIntegerField(default=0)  # of the states that are kept, about


class OutboxChange(models.Model):
    """The whole state of one entity as of `version`; None: it is gone. The shape is `messaging.adminrpc.feed.FeedChange`."""

    version = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=16)
    key = models.CharField(max_length=TOPIC_LENGTH_MAX)
    state = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["version"]


class DynamicSetting(models.Model):
    """A setting of brokers that was changed while they run; by our name, with a value that it can have."""

    name = models.CharField(max_length=128, primary_key=True)
    value = models.JSONField()

    class Meta:
        ordering = ["name"]


class PolicyEvent(models.Model):
    """A change of what is set on a topic that the event topic of its namespace is still to get. The shape of `state` is
    `messaging.adminrpc.feed.TopicState`; None: nothing is set any more."""

    sequence = models.BigIntegerField(primary_key=True)
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="policy_events")
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX)
    state = models.JSONField(null=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[PolicyEvent]] = ScopedManager("namespace__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["sequence"]
        indexes = [models.Index(fields=["namespace", "sequence"], name="policy_event_order")]
