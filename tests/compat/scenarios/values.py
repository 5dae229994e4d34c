"""Observations as JSON values: what was received, the shape of ids, and how a call ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import pulsar

RECEIVE_MS = 5_000
SILENCE_MS = 250
"""How long nothing may come. A broker that sends something wrong sends it within milliseconds."""
PATIENCE: ContextVar[int] = ContextVar("PATIENCE", default=1)
"""By how much longer to wait for what may come or not, on a machine that is busy."""


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """How a call ended: "ok", or the name of the client's exception."""
    try:
        call(*arguments, **options)
    except pulsar.PulsarException as error:
        return type(error).__name__
    return "ok"


def text(message: pulsar.Message) -> str:
    return message.data().decode()


def take(consumer: Any, count: int, *, acknowledge: bool = False) -> list[pulsar.Message]:
    """The next `count` messages; fewer if they do not come."""
    messages: list[pulsar.Message] = []
    try:
        while len(messages) < count:
            message = consumer.read_next(RECEIVE_MS) if isinstance(consumer, pulsar.Reader) else consumer.receive(RECEIVE_MS)
            if acknowledge:
                consumer.acknowledge(message)
            messages.append(message)
    except pulsar.Timeout:
        pass
    return messages


def take_without_queue(consumer: Any, count: int) -> list[str]:
    """The next `count` payloads of a consumer or reader without a receiver queue, which knows no timeout."""
    watch = threading.Timer(RECEIVE_MS / 1000, consumer.close)
    watch.start()
    try:
        receive = consumer.read_next if isinstance(consumer, pulsar.Reader) else consumer.receive
        return [text(receive()) for _ in range(count)]
    finally:
        watch.cancel()


def texts(consumer: Any, count: int, *, acknowledge: bool = True) -> list[str]:
    """The next `count` payloads, acknowledged unless said otherwise (a reader acknowledges by itself)."""
    acknowledge = acknowledge and not isinstance(consumer, pulsar.Reader)
    return [text(message) for message in take(consumer, count, acknowledge=acknowledge)]


def rest(consumer: Any, wait_ms: int = SILENCE_MS) -> list[str]:
    """What else comes, acknowledged, until nothing comes for `wait_ms`."""
    payloads = []
    wait_ms *= PATIENCE.get()
    try:
        while True:
            if isinstance(consumer, pulsar.Reader):
                message = consumer.read_next(wait_ms)
            else:
                message = consumer.receive(wait_ms)
                consumer.acknowledge(message)
            payloads.append(text(message))
    except pulsar.Timeout:
        return payloads


def shapes(ids: Iterable[Any]) -> list[list[int]]:
    """Ids as [which ledger, entry, partition, index in the batch]; ledgers are counted as they come, "no ledger" is -1."""
    ledgers: list[int] = []
    numbers = []
    for message_id in ids:
        ledger = message_id.ledger_id()
        if ledger >= 0 and ledger not in ledgers:
            ledgers.append(ledger)
        numbers.append(
            [ledgers.index(ledger) if ledger >= 0 else -1, message_id.entry_id(), message_id.partition(), message_id.batch_index()]
        )
    return numbers


def received(messages: Iterable[pulsar.Message]) -> list[list[Any]]:
    """Payloads with their redelivery counts."""
    return [[text(message), message.redelivery_count()] for message in messages]


def in_turns(consumers: dict[str, pulsar.Consumer], count: int, wait_ms: int = 60, rounds: int = 60) -> dict[str, list[str]]:
    """Who received what, `count` messages in all, acknowledged as they come."""
    by_consumer: dict[str, list[str]] = {name: [] for name in consumers}
    wait_ms *= PATIENCE.get()
    for _ in range(rounds):
        for name, consumer in consumers.items():
            try:
                while True:
                    message = consumer.receive(wait_ms if sum(map(len, by_consumer.values())) < count else 1)
                    consumer.acknowledge(message)
                    by_consumer[name].append(text(message))
            except pulsar.Timeout:
                pass
        if sum(map(len, by_consumer.values())) >= count:
            break
    return by_consumer
