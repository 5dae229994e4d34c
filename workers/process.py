"""Celery's workers, one for each pool, and beat, as threads of a process that somebody else starts, watches and stops."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from celery import Celery

from messaging import logs
from messaging.settings import ConfigError, Settings
from workers.app import make_app
from workers.environment import Environment
from workers.task_catalog import POOLS, Pool

log = logs.get_logger("magnetar.worker")
CONCURRENCY = 6  # tasks at once of a worker that takes all queues
BEAT_POOL = "control"  # the process with this pool has beat
_BEAT_INTERVAL_S = 5  # how soon a changed schedule is seen
_RETRY_S = 1.0


def pools_of(settings: Settings) -> dict[str, Pool]:
    """Those that this process has, by name. Raises `ConfigError`."""
    wanted = [name.strip() for name in settings.worker_pools.split(",") if name.strip()] or list(POOLS)
    for name in wanted:
        if name not in POOLS:
            raise ConfigError(f"worker_pools: {name[:40]!r} is not one of {', '.join(POOLS)}")
    return {name: POOLS[name] for name in wanted}


def make_workers(settings: Settings, environment: Environment) -> list[Worker]:
    """One for each pool. Not started. Raises `ConfigError`."""
    return [Worker(make_app(settings, environment, pool.queues), pool.threads, name) for name, pool in pools_of(settings).items()]


class Worker:
    """`start` returns at once; `started` is set when tasks are taken. `stop` asks, `join` waits."""

    def __init__(self, app: Celery, threads: int = CONCURRENCY, name: str = "magnetar") -> None:
        app.set_current()
        app.set_default()
        app.finalize()
        self.started = threading.Event()
        self.failed: BaseException | None = None
        self.app, self._threads, self._name = app, threads, name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"worker-{name}", daemon=True)
        self._controller: Any = None

    def start(self) -> None:
        from celery.worker import state
        from kombu.asynchronous import set_event_loop

        state.should_stop = state.should_terminate = None  # of another worker of this process, before (tests)
        # Else Celery takes the event loop of the worker before: each thread would read the connections of the others.
        set_event_loop(None)
        with warnings.catch_warnings():
            # As root Celery warns of pickled messages on each start; this application accepts JSON alone.
            warnings.simplefilter("ignore")
            self._controller = self.app.WorkController(
                pool="threads",
                concurrency=self._threads,
                hostname=self._name,
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                ready_callback=lambda consumer: self.started.set(),
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
