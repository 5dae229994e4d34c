"""The redrive campaign: dead letters go back exactly once, though the worker and the broker are killed again and again.

    python -m tests.compat.redrive_campaign --kills 4 --seed 7

A whole platform; a stock client published the dead letters, another consumes the target all the time, as an application would. The
job is asked for several times with one idempotency key. In the end the target holds each message once, the consumer had each, and a
message that it had twice was the same message of the target.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pulsar

from tests.compat.stock import RECEIVE_MS, Stock, published
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

LETTERS, TARGET = "persistent://public/default/letters", "persistent://public/default/again"
PATH = "/api/v1/tenants/public/namespaces/default/topics/letters/redrives"
DONE_S = 300.0
SHARED = pulsar.ConsumerType.Shared


class Application:
    """Consumes the target until it is closed. `had`: payload -> ids under which it came."""

    def __init__(self, client: pulsar.Client) -> None:
        self.had: dict[bytes, set[str]] = defaultdict(set)
        self._consumer = client.subscribe(TARGET, "app", SHARED, initial_position=pulsar.InitialPosition.Earliest)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                message = self._consumer.receive(500)
            except pulsar.Timeout:
                continue
            self.had[message.data()].add(str(message.message_id()))
            self._consumer.acknowledge(message)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


def run(platform: Standalone, stock: Stock, kills: int, messages: int, chance: Random) -> None:
    """Raises `AssertionError` for the first promise that was broken."""
    client = stock.client(platform.admin_token)
    published(client, LETTERS, range(messages), batching_enabled=False)
    client.subscribe(TARGET, "keeper").close()  # what the application has acknowledged stays, to be looked at
    application = Application(client)
    try:
        body = {"target": TARGET, "rate": max(10, messages // 20), "idempotency_key": "campaign"}
        job = _post(platform, body)["id"]
        for number in range(kills):
            goal = messages * (number + 1) // (kills + 2)
            eventually_sync(partial(_reached, platform, job, goal), DONE_S)
            what = ("broker", "worker")[number % 2]
            time_ms = chance.randrange(0, 900)  # steps are a second apart
            threading.Event().wait(time_ms / 1000)
            os.kill(platform.child(what)["pid"], signal.SIGKILL)
            print(f"killed the {what} after {_moved(platform, job)} messages", flush=True)
            eventually_sync(lambda: _again(platform, body) == job, DONE_S)
        eventually_sync(lambda: _state(platform, job)["state"] == "done", DONE_S)
        eventually_sync(lambda: len(application.had) == messages, DONE_S)
    finally:
        application.close()
    reader = client.create_reader(TARGET, pulsar.MessageId.earliest)
    unread: list[int] = []
    while reader.has_message_available():
        unread.append(int(reader.read_next(RECEIVE_MS).data()))
    assert sorted(unread) == list(range(messages)), f"{len(unread)} messages in the target, {len(set(unread))} of them different"
    twice = {payload: ids for payload, ids in application.had.items() if len(ids) > 1}
    assert not twice, twice
    assert _state(platform, job)["moved"] == messages
    again = _post(platform, body | {"idempotency_key": "another"})["id"]
    eventually_sync(lambda: _state(platform, again)["state"] == "done", DONE_S)
    assert _state(platform, again)["moved"] == 0


def _post(platform: Standalone, body: dict[str, Any]) -> dict[str, Any]:
    answer = platform.http("POST", PATH, body, platform.admin_token)
    assert answer.status == 201, answer.text
    job_state: dict[str, Any] = answer.json()
    return job_state


def _again(platform: Standalone, body: dict[str, Any]) -> str:
    """The id that the same key has; "" while the platform cannot say."""
    answer = platform.http("POST", PATH, body, platform.admin_token)
    return str(answer.json()["id"]) if answer.status == 201 else ""


def _state(platform: Standalone, job: str) -> dict[str, Any]:
    answer = platform.http("GET", f"{PATH}/{job}", token=platform.admin_token)
    assert answer.status == 200, answer.text
    job_state: dict[str, Any] = answer.json()
    return job_state


def _reached(platform: Standalone, job: str, goal: int) -> bool:
    return _moved(platform, job) >= goal


def _moved(platform: Standalone, job: str) -> int:
    return int(_state(platform, job)["moved"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill worker and broker in the middle of a redrive, and look for what came twice.")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.messages} messages, {chosen.kills} kills, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        platform = Standalone(Path(folder, "data"), MAGNETAR_REPEAT_INTERVAL_S="2", MAGNETAR_USAGE_JOB_INTERVAL_S="86400")
        stock = None
        try:
            platform.start()
            stock = Stock(platform.ready["broker_url"], Path(folder, "client.log"))
            run(platform, stock, chosen.kills, chosen.messages, Random(chosen.seed))
        finally:
            if stock is not None:
                stock.close()
            platform.close()
    print(f"kept: each of {chosen.messages} messages went back once (seed {chosen.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
