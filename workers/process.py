"""Celery's worker, as a thread of a process that somebody else starts, watches and stops."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

from messaging import logs
from messaging.settings import ConfigError, Settings
from workers.app import make_app
from workers.environment import Environment
from workers.schedule import POOLS, Pool

log = logs.get_logger("magnetar.worker")


def pools_of(settings: Settings) -> dict[str, Pool]:
    """Those that this process has, by name. Raises `ConfigError`."""
    wanted = [name.strip() for name in settings.worker_pools.split(",") if name.strip()] or list(POOLS)
    for name in wanted:
        if name not in POOLS:
            raise ConfigError(f"worker_pools: {name[:40]!r} is not one of {', '.join(POOLS)}")
    return {name: POOLS[name] for name in wanted}


def ready_file_of(settings: Settings) -> Path:
    """Of a process with some of the pools a file of its own."""
    pools = "".join(f"-{name.strip()}" for name in settings.worker_pools.split(",") if name.strip())
    return settings.data_path / "run" / f"worker{pools}.json"


class Worker:
    """`start` returns at once; `started` is set when tasks are taken. `stop` asks, `join` waits. Raises `ConfigError`."""

    def __init__(self, environment: Environment) -> None:
        self.started, self._ending = threading.Event(), threading.Event()
        self.failed: BaseException | None = None
        self._pools = pools_of(environment.settings)
        self.app = make_app(environment)
        self.app.conf.broker_transport_options = {"pools": self._pools, "ending": self._ending}
        # Celery runs a task of the current application, whichever worker took it.
        self.app.set_current()
        self.app.set_default()
        self.app.finalize()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    def _run(self) -> None:
        from django.db import connections

        try:
            with warnings.catch_warnings():
                # As root Celery warns of pickled messages on each start; this application accepts JSON alone.
                warnings.simplefilter("ignore")
                controller = self.app.WorkController(
                    pool="threads",
                    concurrency=sum(pool.threads for pool in self._pools.values()),
                    without_gossip=True,
                    without_mingle=True,
                    without_heartbeat=True,
                    ready_callback=lambda consumer: self.started.set(),
                )
            controller.start()
        except BaseException as error:
            self.failed = error
            log.exception("worker-failed")
        finally:
            connections.close_all()  # of this thread
