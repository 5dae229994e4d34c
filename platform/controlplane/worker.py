"""The worker process, `python -m controlplane.worker`: Celery's worker and beat in one process, until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from controlplane.django_setup import set_up
from messaging import logs
from messaging.atomic_files import replace_file
from messaging.lean_imports import without
from messaging.settings import ConfigError, Settings, load

log = logs.get_logger("magnetar.worker")
STOP_S = 3.2  # the supervisor gives four seconds before it kills
_WATCH_S = 0.5
# Three lines a task, each minute; `workers.runs` says the same in one, and the database keeps it.
_CHATTY = ("celery.worker.strategy", "celery.app.trace", "celery.beat")


def main(settings: Settings) -> int:
    """Blocks until SIGTERM or SIGINT, then stops within `STOP_S`; 0. Must be called on the main thread, before Django is set up.

    Writes run/worker.json when tasks are taken and beat runs. 1 if the worker ends by itself, so that whoever started it can again.
    """
    logs.setup("worker", settings)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.getLogger().level, logging.WARNING))
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _run(settings, stopping)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def set_up_django(settings: Settings) -> None:
    """As `django_setup.set_up`, with what the worker needs of it."""
    with without("yaml"):  # kombu offers it where it can; messages here are JSON
        set_up(settings, "controlplane.worker_settings")


def _run(settings: Settings, stopping: threading.Event) -> int:
    set_up_django(settings)
    from workers.beat import BEAT_POOL, Beat, ensure_schedule
    from workers.carriers import Carriers
    from workers.environment import Environment, environment_of
    from workers.memory import process_memory
    from workers.process import Worker, pools_of, ready_file_of
    from workers.usage_home import home, pools_here

    ready_file = ready_file_of(settings)
    pools = pools_here(settings, datetime.now(UTC))
    if pools != settings.worker_pools:
        log.info("usage-elsewhere", home=str(home()), to_do="`magnetar usage move-here` has it computed in this data directory")
        settings = msgspec.structs.replace(settings, worker_pools=pools)
    real = environment_of(settings)
    carriers = Carriers()
    environment = Environment(settings, real.rpc, stopping, real.now, carriers)
    worker = Worker(environment)
    beat = Beat(worker.app) if BEAT_POOL in pools_of(settings) else None
    if beat is not None:
        ensure_schedule(settings)
    ready_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    parts: list[Worker | Beat] = [worker, *([beat] if beat is not None else [])]
    for part in parts:
        part.start()
    ready = False
    while not stopping.is_set() and not worker.ended:
        if not ready and all(part.started.is_set() for part in parts):
            _write(ready_file, {"pid": os.getpid()})
            ready = True
            log.info("worker-ready", pools=", ".join(pools_of(settings)))
            process_memory.used()
            gc.collect()
            gc.freeze()  # later collections need not look at what was imported
        process_memory.trim_if_due()
        stopping.wait(_WATCH_S if ready else 0.01)
    ended_by_itself = not stopping.is_set()
    stopping.set()
    ready_file.unlink(missing_ok=True)
    deadline = time.monotonic() + STOP_S
    for part in parts:
        part.stop()
    carriers.stop()
    clean = all(part.join(max(0.0, deadline - time.monotonic())) for part in (*reversed(parts), carriers))
    if not clean:
        # A task hangs in a call that nothing can interrupt. Its row says "running": another worker gets it when the lease ends.
        log.warning("worker-stop-overdue", why="a task does not return; another worker takes it up")
        logging.shutdown()
        os._exit(1 if ended_by_itself else 0)
    return 1 if ended_by_itself else 0


def _write(path: Path, value: dict[str, int]) -> None:
    replace_file(path, json.dumps(value).encode(), durable=False)


def run() -> int:
    """What `python -m controlplane.worker` does: settings from the environment; 2 for settings that cannot be."""
    try:
        settings = load()
    except ConfigError as error:
        return _refused(error)
    try:
        return main(settings)
    except ConfigError as error:  # certificates towards the broker that cannot be used
        return _refused(error)


def _refused(error: ConfigError) -> int:
    print(f"magnetar worker: {error}", file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(run())
