"""Celery's beat, which asks for each task of the schedule when it is due, and the rows that it reads the schedule from."""

from __future__ import annotations

import threading

from celery import Celery
from django.db import connections, transaction

from messaging import logs
from messaging.settings import Settings
from workers.schedule import TASKS

log = logs.get_logger("magnetar.worker")
PREFIX = "magnetar: "
BEAT_POOL = "control"  # the process with this pool has beat
_INTERVAL_S = 5  # how soon a changed schedule is seen
_RETRY_S = 1.0


def ensure_schedule(settings: Settings) -> None:
    """Makes the rows say what `workers.schedule` says. Idempotent. Intervals follow the settings; whether a row is
    enabled is left as an administrator set it."""
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


class Beat:
    """Sends each task when its row in the database says so. A database or queue that is away for a while only delays it."""

    def __init__(self, app: Celery) -> None:
        self.started = threading.Event()
        self._app = app
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        from django_celery_beat.schedulers import DatabaseScheduler

        scheduler = None
        try:
            while not self._stop.is_set():
                try:
                    if scheduler is None:
                        scheduler = DatabaseScheduler(app=self._app, max_interval=_INTERVAL_S)
                    self.started.set()
                    wait_s = scheduler.tick()
                    if scheduler.should_sync():
                        scheduler.sync()
                except Exception:
                    log.exception("schedule-unreadable", retry_s=_RETRY_S)
                    wait_s = _RETRY_S
                self._stop.wait(min(wait_s, _INTERVAL_S))
            if scheduler is not None:
                scheduler.close()
        finally:
            connections.close_all()  # of this thread
