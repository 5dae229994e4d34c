"""Which rows of usage count: those of the run that the pointer of their hour, or of their day or month, names.

A version is written beside the one in force, in pieces, and the former one is deleted in pieces after the pointer went over
(`workers.usage_load`). So the tables hold rows of both for a while; queries through `objects` see those that count, and queries
through `versions` all of them.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.apps import apps
from django.db import models

from tenants.scoping import ScopedManager

M = TypeVar("M", bound=models.Model, covariant=True)


class CurrentVersion(ScopedManager[M]):
    """`pointer`: the model of the pointers, which has a row for each value of `column`."""

    def __init__(self, pointer: str, column: str) -> None:
        super().__init__("tenant_uid", by_uid=True)
        self._pointer, self._column = pointer, column

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().filter(self.counts())

    def counts(self) -> models.Exists:
        """The condition by which a row does."""
        pointer: Any = apps.get_model("workers", self._pointer)
        return models.Exists(pointer.objects.filter(**{self._column: models.OuterRef(self._column), "run": models.OuterRef("run")}))
