"""The rows that beat reads its schedule from, updated at each start from `workers.task_catalog`."""

from __future__ import annotations

from django.db import transaction

from messaging.settings import Settings
from workers.task_catalog import TASKS

PREFIX = "magnetar: "


def ensure_schedule(settings: Settings) -> None:
    """Idempotent. Intervals follow the settings; whether a row is enabled is left as an administrator set it."""
    from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

    wanted = {PREFIX + entry.title: entry for entry in TASKS if entry.interval}
    changed = False
    with transaction.atomic():
        changed |= PeriodicTask.objects.filter(name__startswith=PREFIX).exclude(name__in=wanted).delete()[0] > 0
        for name, entry in wanted.items():
            seconds: int = getattr(settings, entry.interval)
            interval = IntervalSchedule.objects.filter(every=seconds, period=IntervalSchedule.SECONDS).first()
            if interval is None:
                interval = IntervalSchedule.objects.create(every=seconds, period=IntervalSchedule.SECONDS)
            fields = {"task": entry.name, "interval": interval, "description": entry.title, "expire_seconds": None, "queue": None}
            row = PeriodicTask.objects.filter(name=name).first()
            if row is None:
                PeriodicTask.objects.create(name=name, **fields)
            elif any(getattr(row, field) != value for field, value in fields.items()):
                for field, value in fields.items():
                    setattr(row, field, value)
                row.save()
                changed = True
        if changed:
            PeriodicTasks.update_changed()
