"""Celery's worker and beat as two threads of a process that somebody else starts, watches and stops."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from celery import Celery

from messaging import logs

log = logs.get_logger("magnetar.worker")
CONCURRENCY = 6  # tasks at once: a long one of each kind, and room for short ones
_BEAT_INTERVAL_S = 5  # how soon a changed schedule is seen
_RETRY_S = 1.0


class Worker:
    """`start` returns at once; `consuming` is set when tasks are taken. `stop` asks, `join` waits."""

    def __init__(self, app: Celery) -> None:
        app.set_current()
        app.set_default()
        app.finalize()
        self.consuming = threading.Event()
        self.failed: BaseException | None = None
        self._app = app
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._controller: Any = None

    def start(self) -> None:
        from celery.worker import state

        state.should_stop = state.should_terminate = None  # of another worker of this process, before (tests)
        with warnings.catch_warnings():
            # As root Celery warns of pickled messages on each start; this application accepts JSON alone.
            warnings.simplefilter("ignore")
            self._controller = self._app.WorkController(
                pool="threads",
                concurrency=CONCURRENCY,
                hostname="magnetar",
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                ready_callback=lambda consumer: self.consuming.set(),
            )
        self._thread.start()

    def stop(self) -> None:
        from celery.worker import state

        state.should_stop = 0

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def _run(self) -> None:
        try:
            self._controller.start()
        except BaseException as error:
            self.failed = error
            log.exception("worker-failed")
        finally:
            self._ended.set()


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
        from django.db import connections
        from django_celery_beat.schedulers import DatabaseScheduler

        scheduler = None
        try:
            while not self._stop.is_set():
                try:
                    if scheduler is None:
                        scheduler = DatabaseScheduler(app=self._app, max_interval=_BEAT_INTERVAL_S)
                    self.started.set()
                    wait_s = scheduler.tick()
                    if scheduler.should_sync():
                        scheduler.sync()
                except Exception:
                    log.exception("schedule-unreadable", retry_s=_RETRY_S)
                    wait_s = _RETRY_S
                self._stop.wait(min(wait_s, _BEAT_INTERVAL_S))
            if scheduler is not None:
                scheduler.close()
        finally:
            connections.close_all()  # of this thread
