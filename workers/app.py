"""The Celery application: what a task of the catalog is when Celery's worker runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery import Celery
from kombu.entity import Queue

from messaging.errors import NotReady
from messaging.late_imports import imported
from workers.environment import Environment
from workers.schedule import QUEUE, TASKS, TaskEntry


def make_app(environment: Environment) -> Celery:
    """An application of its own, with the tasks of the catalog. `workers.queue` is its queue.

    Celery's own Django fixup is left out: it runs all system checks at start (loading every URL and view) and puts the current
    folder first on the import path. What is needed of it, closing connections after a task, is in `_run`.
    """
    app = Celery("magnetar", fixups=set(), set_as_current=False)
    app.conf.update(
        broker_url="database://",
        broker_transport="workers.transport:Transport",
        accept_content=["json"],
        task_serializer="json",
        timezone="UTC",
        enable_utc=True,
        task_default_queue=QUEUE,
        task_queues=[Queue(QUEUE)],  # type: ignore[no-untyped-call]
        task_ignore_result=True,  # the row says how a run ended
        task_acks_late=True,  # a run counts as one of its pool's until it has ended
        worker_prefetch_multiplier=0,  # the transport hands out no more than there are threads
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
    )
    for entry in TASKS:
        # Not shared: a shared task is added to every other application of the process, with this one's environment.
        app.task(_runner(environment, entry), name=entry.name, bind=True, shared=False)
    return app


def _runner(environment: Environment, entry: TaskEntry) -> Any:
    def run(task: Any, **arguments: Any) -> dict[str, Any]:
        return _run(environment, entry, str(task.request.id), arguments)

    return run


def _run(environment: Environment, entry: TaskEntry, task_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from django.db import connections

    from workers.memory import process_memory
    from workers.runs import run_recorded, steps_recorded

    work = imported(entry.work)
    try:
        if not entry.turn or environment.carriers is None:
            try:
                return run_recorded(environment, entry.name, task_id, work, **arguments)
            finally:
                process_memory.used()
        steps = _closing(steps_recorded(environment, entry.name, task_id, work, **arguments))
        try:
            environment.carriers.carry(entry.queue, imported(entry.turn)(**arguments), steps)
        except NotReady as error:
            return {"outcome": "asked for again later", "why": error.message}  # its row is as it was
        return {"outcome": "carried"}
    finally:
        connections.close_all()  # of this thread


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
