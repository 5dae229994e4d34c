"""Apache's clients for Java and Go: programs of tests/compat/clients that publish and consume until they are told to end.

A program reads lines:

    publish TOPIC NAME batched|single PAUSE_MS    a message each PAUSE_MS, of keys that begin with NAME
    consume TOPIC SUBSCRIPTION TYPE               acknowledges everything, with receipts, and again until there is one
    close                                         publish nothing more, and wait for the receipts

and writes `done LINE` once that is done, and meanwhile

    receipt TOPIC PAYLOAD STARTED_MS              stored; when it was published, since 1970
    refused TOPIC PAYLOAD ERROR
    came TOPIC SUBSCRIPTION ID PAYLOAD
    acknowledged TOPIC SUBSCRIPTION ID            the acknowledgement was answered
    ended TOPIC SUBSCRIPTION ERROR                a consumer, which may not
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

from tests.compat.probes import CLIENTS
from tests.compat.receipts import Deliveries, Receipts, Sent

JAVA, GO = "java", "go"
DONE_S = 180.0
_NAMES = {JAVA: "Java 4.0.8", GO: "Go 0.19.0"}


def missing() -> list[str]:
    """Clients that `make clients` has not installed."""
    return [name for name in _NAMES.values() if not CLIENTS[name].ready]


class Program:
    """`publishers` and `subscriptions`, by topic and by (topic, subscription)."""

    def __init__(self, language: str, url: str, token: str, log: Path) -> None:
        self.language = language
        self.publishers: dict[str, Receipts] = {}
        self.subscriptions: dict[tuple[str, str], Deliveries] = {}
        self._done = set[str]()
        self._changed = threading.Condition()
        command = CLIENTS[_NAMES[language]].command
        if language == JAVA:
            arguments = [*command[:-1], "Campaign", url, token]
        else:
            arguments = [*command, json.dumps({"campaign": "yes", "broker": url, "token": token})]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )
        self._log = log
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def publish(self, topic: str, *, batched: bool, pause_ms: int) -> None:
        self.publishers[topic] = Receipts(topic)
        self._tell(f"publish {topic} {topic.rpartition('/')[2]} {'batched' if batched else 'single'} {pause_ms}")

    def consume(self, topic: str, subscription: str, kind: str, count: int = 1) -> None:
        self.subscriptions[topic, subscription] = Deliveries(topic, subscription)
        for _ in range(count):
            self._tell(f"consume {topic} {subscription} {kind}")

    def close(self) -> None:
        """Its consumers go on."""
        self._tell("close")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def check(self) -> None:
        assert self._process.poll() is None, f"the {self.language} client ended: {self._log.read_text()[-2000:]}"

    def _tell(self, line: str) -> None:
        with self._changed:
            self._done.discard(line)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        with self._changed:
            there = self._changed.wait_for(lambda: line in self._done or self._process.poll() is not None, DONE_S)
        self.check()
        assert there, f"the {self.language} client did not {line} within {DONE_S:.0f} s"

    def _read(self) -> None:
        assert self._process.stdout is not None
        to_monotonic_s = time.monotonic() - time.time()
        for line in self._process.stdout:
            kind, *words = line.split()
            if kind == "receipt":
                topic, payload, started_ms = words
                self.publishers[topic].receipt(Sent.read(payload), int(started_ms) / 1000 + to_monotonic_s)
            elif kind == "refused":
                self.publishers[words[0]].refused(Sent.read(words[1]), " ".join(words[2:]))
            elif kind == "came":
                topic, subscription, message_id, payload = words
                self.subscriptions[topic, subscription].came(message_id, payload)
            elif kind == "acknowledged":
                topic, subscription, message_id = words
                self.subscriptions[topic, subscription].was_acknowledged(message_id)
            elif kind == "ended":
                topic, subscription, *error = words
                self.subscriptions[topic, subscription].faults.append(f"{topic}, {subscription} ended: {' '.join(error)}")
            elif kind == "done":
                with self._changed:
                    self._done.add(line.strip().partition(" ")[2])
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
