"""Policies of single topics. The topics themselves are the broker's."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import TOPIC_LENGTH_MAX
from tenants.models.tenant import Namespace
from tenants.scoping import ScopedManager


class TopicPolicies(models.Model):
    """What is set on a topic and on its subscriptions, by the names of `messaging.policies.registry`. A partitioned topic has one
    row for all its partitions; a topic on which nothing is set has none."""

    topic = models.CharField(primary_key=True, max_length=TOPIC_LENGTH_MAX)  # full name
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="topic_policies")
    policies = models.JSONField(default=dict)
    subscriptions = models.JSONField(default=dict)  # subscription -> its policies
    created_ms = models.BigIntegerField(default=0)  # of the topic: a later one of its name does not inherit this
    state_bytes = models.IntegerField(default=0)  # of what brokers were told of it last

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[TopicPolicies]] = ScopedManager("namespace__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["topic"]

    def __str__(self) -> str:
        return self.topic
