"""What the features of a release of the Python client are tried with. Runs in a virtual environment with that release alone."""

from __future__ import annotations

import inspect
import json
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pulsar

PLAN: dict[str, str] = json.loads(sys.argv[1])
SUBSCRIBE = inspect.signature(pulsar.Client.subscribe).parameters
PRODUCE = inspect.signature(pulsar.Client.create_producer).parameters
FEATURES: dict[str, Callable[[Any], Any]] = {}


def feature(offered: bool = True) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers a feature, if this release offers it."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if offered and function.__name__ in PLAN.get("only", function.__name__).split(","):
            FEATURES[function.__name__] = function
        return function

    return register


def topic(name: str) -> str:
    return f"{PLAN['topics']}{name}"


def quiet() -> dict[str, Any]:
    """Options of a client that logs nothing, where a release can do that."""
    return {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)} if hasattr(pulsar, "ConsoleLogger") else {}


def same(got: object, wanted: object) -> None:
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def receive(consumer: Any, count: int) -> list[str]:
    payloads = []
    for _ in range(count):
        message = consumer.receive(8000)
        consumer.acknowledge(message)
        payloads.append(message.data().decode())
    return payloads


def rest(consumer: Any) -> list[str]:
    payloads = []
    try:
        while True:
            message = consumer.receive(400)
            consumer.acknowledge(message)
            payloads.append(message.data().decode())
    except pulsar.Timeout:
        return payloads


def send(client: Any, name: str, *texts: str, **options: Any) -> list[Any]:
    producer = client.create_producer(topic(name), **options)
    ids = [producer.send(text.encode()) for text in texts]
    producer.close()
    return ids


def unload(name: str) -> None:
    """As when its broker restarts: what it knows of the topic is what it stored."""
    path = topic(name).replace("://", "/")
    url, headers = f"{PLAN['admin']}/admin/v2/{path}/unload", {"Authorization": f"Bearer {PLAN['token']}"}
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=10).close()


def report(name: str, error: BaseException | None) -> None:
    result: dict[str, Any] = {"feature": name, "ok": error is None}
    if error is not None:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    sys.stdout.write(f"{json.dumps(result)}\n")  # in one piece: several threads write
    sys.stdout.flush()
