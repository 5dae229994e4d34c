"""The Celery application. Importing this brings Celery (0.3 s, 10 MiB): the web process does so when somebody asks for a run."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from celery import Celery
from django.conf import settings as django_settings
from kombu.entity import Queue

from messaging.errors import NotReady
from messaging.settings import Settings
from workers.environment import Environment
from workers.queue import queue_configuration
from workers.task_catalog import QUEUE, QUEUES, TASKS, TaskEntry

RESULTS_KEPT_S = 3600


def make_app(settings: Settings, environment: Environment | None = None, queues: Sequence[str] = QUEUES) -> Celery:
    """An application of its own. With `environment` it can run tasks, those of `queues`; without, it only sends them.

    Celery's own Django fixup is left out: it runs all system checks at start (loading every URL and view) and puts the current
    folder first on the import path. What is needed of it, closing connections after a task, is in `_run`.
    """
    app = Celery("magnetar", fixups=set(), set_as_current=False)
    app.conf.update(
        **queue_configuration(settings),
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        result_expires=RESULTS_KEPT_S,
        timezone="UTC",
        enable_utc=True,
        task_default_queue=QUEUE,
        task_queues=[Queue(name) for name in queues],  # type: ignore[no-untyped-call]
        task_routes={entry.name: {"queue": entry.queue} for entry in TASKS},
        # Runs are recorded in the database. Who wants a result says so when sending: the sender then subscribes to it on the
        # server, for good if it never looks, and waits for twenty seconds where there is no server.
        task_ignore_result=True,
        task_acks_late=True,  # tasks are idempotent: better twice than not
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2},
    )
    for entry in TASKS:
        # Not shared: a shared task is added to every other application of the process, with this one's environment.
        app.task(_runner(environment, entry), name=entry.name, bind=True, shared=False)
    return app


def _runner(environment: Environment | None, entry: TaskEntry) -> Any:
    def run(task: Any, **arguments: Any) -> dict[str, Any]:
        assert environment is not None, "this application only sends tasks"
        return _run(environment, entry, str(task.request.id), arguments)

    return run


def _run(environment: Environment, entry: TaskEntry, task_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from django.db import connections

    from workers.memory import process_memory
    from workers.runs import run_recorded, steps_recorded

    work = _function(entry.work)
    try:
        if not entry.turn or environment.carriers is None:
            try:
                return run_recorded(environment, entry.name, task_id, work, **arguments)
            finally:
                process_memory.used()
        steps = _closing(steps_recorded(environment, entry.name, task_id, work, **arguments))
        try:
            environment.carriers.carry(entry.queue, _function(entry.turn)(**arguments), steps)
        except NotReady as error:
            return {"outcome": "asked for again later", "why": error.message}  # its row is as it was
        return {"outcome": "carried"}
    finally:
        connections.close_all()  # of this thread


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _closing(steps: Iterator[float]) -> Iterator[float]:
    """The same steps; none leaves a database connection to its thread, because the next one may be on another."""
    from django.db import connections

    while True:
        try:
            wait_s = next(steps)
        except StopIteration:
            return
        finally:
            connections.close_all()
        yield wait_s


_lock = threading.Lock()
sender_app: Celery | None = None


def sender() -> Celery:
    """The application of a process that only sends tasks; made at the first use."""
    global sender_app
    with _lock:
        if sender_app is None:
            sender_app = make_app(django_settings.MAGNETAR)
        return sender_app
