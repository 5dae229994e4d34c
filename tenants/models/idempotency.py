"""Idempotency keys of the last day, with what was answered."""

from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """`subject` and `digest` are hashes, of who asks and of what was asked; `owner` is the tenant of the key, or
    somebody who belongs to none. `status` None: the request has not ended. `content` None: its answer is not kept."""

    subject = models.CharField(max_length=64)
    owner = models.CharField(max_length=600)
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    content = models.BinaryField(null=True)
    content_type = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "key"], name="one_request_a_key")]
        indexes = [
            models.Index(fields=["owner"], name="idempotency_by_owner"),
            models.Index(fields=["created_at"], name="idempotency_by_time"),
        ]

    def __str__(self) -> str:
        return self.key
