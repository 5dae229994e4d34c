"""Redrive jobs, the step that each is about to do, and what became of each entry."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.of_tenant import TOPIC_LENGTH_MAX, OfTenant, new_id

WHY_CHARACTERS_MAX = 200
EDIT_DONE: dict[str, Any] = {}  # in place of an edit that is not needed any more: what it says is kept nowhere but in the message


class RedriveJob(OfTenant):
    """`pending` is the step that was written down before it was begun: after a crash it is asked for again, and does nothing if it
    was done. There is one job for each idempotency key of a tenant."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        DONE = "done"
        CANCELLED = "cancelled"
        FAILED = "failed"

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    idempotency_key = models.CharField(max_length=NAME_LENGTH_MAX)
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX)  # whose messages are moved; full name
    subscription = models.CharField(max_length=NAME_LENGTH_MAX)
    target = models.CharField(max_length=TOPIC_LENGTH_MAX, blank=True)  # "": each to the topic that it came from
    owner = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1)  # the role on whose behalf
    requested_by = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1)
    filter = models.JSONField(default=dict)  # `messaging.adminrpc.redrive.RedriveFilter`
    edit: Any = models.JSONField(null=True)  # `messaging.adminrpc.redrive.RedriveEdit`, of the one message that is moved
    rate = models.PositiveIntegerField(default=0)  # messages per second; 0: as fast as it goes
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    ledger_id = models.BigIntegerField(default=-1)  # from where it looks on
    entry_id = models.BigIntegerField(default=0)
    step = models.PositiveIntegerField(default=0)
    pending: Any = models.JSONField(null=True)  # {"found": [...], "moves": [...], "behind", "looked_at", "last"}
    looked_at = models.PositiveBigIntegerField(default=0)
    moved = models.PositiveBigIntegerField(default=0)  # messages
    left = models.PositiveBigIntegerField(default=0)  # entries that match and stay; their outcomes say why
    error = models.TextField(blank=True)  # why it does not go on

    objects: ClassVar[ScopedManager[RedriveJob]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "idempotency_key"], name="one_redrive_a_key")]
        indexes = [models.Index(fields=["tenant_uid", "topic", "-created_at"], name="redrive_by_topic")]

    def __str__(self) -> str:
        return f"{self.topic} to {self.target or 'where they came from'}"


class RedriveOutcome(models.Model):
    """One entry of a job: `why` is empty for one that was moved."""

    job = models.ForeignKey(RedriveJob, on_delete=models.CASCADE, related_name="outcomes")
    ledger_id = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    messages = models.PositiveIntegerField()
    key = models.TextField(blank=True)
    why = models.CharField(max_length=WHY_CHARACTERS_MAX, blank=True)
    target = models.CharField(max_length=TOPIC_LENGTH_MAX, blank=True, default="", db_default="")  # of one that was moved
    step = models.PositiveIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["job", "ledger_id", "entry_id"], name="one_outcome_an_entry")]

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id} {self.why or 'moved'}"
