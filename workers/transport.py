"""What Celery sees of the queue: a transport of Kombu that reads and writes the table of runs (`workers.queue`)."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from celery.exceptions import WorkerShutdown
from django.db import DatabaseError, connections
from kombu.transport import virtual

from messaging import logs
from workers.models import TaskRun
from workers.queue import ask_for, take
from workers.schedule import BY_NAME, Pool, pool_of

log = logs.get_logger("magnetar.worker")
POLL_S = 0.5  # what is asked for begins within a second, where a thread of its pool is free
RETRY_S = 1.0


class Channel(virtual.Channel):
    """Hands out no more runs of a pool than it has threads: one that has none waits in its row, where others find it.

    Options of the transport: `pools`, those that this worker has, and `ending`, an event that ends it."""

    do_restore = False  # rows that were not worked off are due again by themselves

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]  # Kombu has no types
        given = self.connection.client.transport_options
        self._pools: Mapping[str, Pool] = given["pools"]
        self._ending: threading.Event = given["ending"]
        self._handed_out: dict[str, str] = {}  # delivery tag -> pool

    def _get_many(self, queues: Any, timeout: float | None = None) -> None:
        """Delivers what is due, or waits a moment. Ends the worker from within its own loop, as a signal would."""
        if self._ending.is_set():
            raise WorkerShutdown(0)
        in_use = list(self._handed_out.values())
        try:
            runs = take({name: pool.threads - in_use.count(name) for name, pool in self._pools.items()}, datetime.now(UTC))
        except DatabaseError as error:
            log.warning("queue-unreadable", retry_s=RETRY_S, why=f"{type(error).__name__}: {error}")
            connections.close_all()
            self._ending.wait(RETRY_S)
            raise TimeoutError from None
        for run in runs:
            message = message_of(run)
            self._handed_out[message["properties"]["delivery_tag"]] = pool_of(BY_NAME[run.name])
            self.connection._deliver(message, next(iter(queues)))
        if not runs:
            self._ending.wait(POLL_S)
            raise TimeoutError  # nothing came: the loop acknowledges what has ended, and asks again

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        """What Celery sends, which is what beat says is due."""
        body = self.decode_body(message["body"], message["properties"].get("body_encoding"))  # type: ignore[no-untyped-call]
        _, arguments, _ = json.loads(body)
        ask_for(message["headers"]["task"], task_id=message["headers"]["id"], **arguments)

    def _purge(self, queue: str) -> int:
        return 0  # nobody's runs are thrown away by emptying a queue

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        self._handed_out.pop(delivery_tag, None)
        super().basic_ack(delivery_tag, multiple)  # type: ignore[no-untyped-call]

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._handed_out.pop(delivery_tag, None)
        super().basic_reject(delivery_tag, requeue=False)  # type: ignore[no-untyped-call]  # its row decides


class Transport(virtual.Transport):
    Channel = Channel
    driver_type = driver_name = "database"


def message_of(run: TaskRun) -> dict[str, Any]:
    """A message of Celery's protocol, version 2."""
    return {
        "headers": {"lang": "py", "task": run.name, "id": run.task_id},
        "body": json.dumps([[], run.arguments, {}]),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "properties": {"delivery_tag": uuid.uuid4().hex, "delivery_info": {}, "correlation_id": run.task_id},
    }
