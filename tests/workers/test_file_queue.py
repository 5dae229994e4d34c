"""The queue in files: what one thread or process writes is never seen half written by another."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.messaging import Producer

from messaging.settings import Settings
from workers.queue import queue_configuration

QUEUES = 5
MESSAGES = 100


def connection_of(settings: Settings) -> Connection:
    found = queue_configuration(settings)
    return Connection(found["broker_url"], transport_options=found["broker_transport_options"] | {"polling_interval": 0.01})


def queue_of(number: int) -> Queue:
    """The exchange has a name of its own for each caller: Kombu remembers what a process declared."""
    return Queue(f"q{number}", Exchange(str(uuid.uuid4())), routing_key=f"q{number}")


def publish(producer: Producer, queue: Queue, message: dict[str, int]) -> None:
    """As Celery does: to the queue, past the exchange."""
    producer.publish(message, exchange="", routing_key=queue.name, declare=[queue], retry=True, retry_policy={"max_retries": 0})


def test_readers_and_senders_at_once_lose_nothing(settings_of: Callable[..., Settings]) -> None:
    settings = settings_of()
    failures: list[BaseException] = []
    received: list[dict[str, int]] = []
    together = threading.Barrier(2 * QUEUES)

    def send(number: int) -> None:
        together.wait()
        with connection_of(settings) as connection:
            producer = Producer(connection)
            queue = queue_of(number)
            for index in range(MESSAGES):
                publish(producer, queue, {"of": number, "index": index})

    def receive(number: int) -> None:
        together.wait()
        with connection_of(settings) as connection:
            held = connection.SimpleQueue(queue_of(number), no_ack=True)
            for _ in range(MESSAGES):
                received.append(held.get(timeout=30).payload)

    def in_thread(work: Callable[[int], None], number: int) -> threading.Thread:
        def run() -> None:
            try:
                work(number)
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=run, daemon=True)

    threads = [in_thread(work, number) for number in range(QUEUES) for work in (send, receive)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    wanted = [{"of": number, "index": index} for number in range(QUEUES) for index in range(MESSAGES)]
    assert sorted(received, key=lambda one: (one["of"], one["index"])) == wanted


def test_a_table_of_queues_is_whole_when_it_can_be_seen(settings_of: Callable[..., Settings], monkeypatch: Any) -> None:
    settings = settings_of()
    seen: list[Any] = []
    exists = Path.exists

    def looking(path: Path, **options: Any) -> bool:
        found = exists(path, **options)
        if path.suffix == ".exchange" and found:
            seen.append(json.loads(path.read_text()))
        return found

    monkeypatch.setattr(Path, "exists", looking)
    with connection_of(settings) as connection:
        exchange = Exchange(str(uuid.uuid4()))
        for name in ("first", "second"):
            Queue(name, exchange, routing_key=name)(connection.channel()).declare()
    assert seen[0] == []  # before the first is written to it
    assert [one[2] for one in seen[-1]] == ["first"]


def test_a_message_that_cannot_be_written_is_refused(settings_of: Callable[..., Settings]) -> None:
    settings = settings_of()
    with connection_of(settings) as connection:
        queue = queue_of(0)
        producer = Producer(connection)
        publish(producer, queue, {})
        folder = settings.data_path / "run" / "queue" / "messages"
        folder.rename(folder.with_name("elsewhere"))
        with pytest.raises(OperationalError, match="the queue's file cannot be written"):
            publish(producer, queue, {})
