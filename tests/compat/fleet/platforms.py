"""What a campaign is about: brokers with names, which are killed, paused and drained, and come back by themselves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Protocol

from tests.support.brokers.standalone import Answer, Standalone
from tests.support.waiting import eventually_sync

AGAIN_S = 60.0  # within that every topic takes messages again; far above what it takes, for machines that are slow


class Platform(Protocol):
    """`shared`: any broker may serve any topic, because all store in one place."""

    names: list[str]
    shared: bool

    def start(self) -> None: ...

    def close(self) -> None: ...

    @property
    def broker_url(self) -> str: ...

    @property
    def websocket_url(self) -> str:
        """Of the JSON API: ws://host:port."""

    @property
    def admin_token(self) -> str: ...

    def http(self, method: str, path: str, body: Any = None) -> Answer:
        """As the superuser."""

    def own_url(self, name: str) -> str:
        """Where a lookup leads for the topics of that broker."""

    def pid(self, name: str) -> int: ...

    def kill_web(self) -> None:
        """Returns when it is back."""

    def until_all_run(self) -> None:
        """Those that were killed, drained or taken for gone are started again."""


class OneMachine:
    """`magnetar standalone --brokers N`. `urls`: where all of them store; else each has a log of its own."""

    def __init__(self, folder: Path, brokers: int, **urls: str) -> None:
        self.names = ["broker" if number == 1 else f"broker-{number}" for number in range(1, brokers + 1)]
        self.shared = bool(urls)
        self._standalone = Standalone(folder, "--brokers", str(brokers), MAGNETAR_LOG_LEVEL="warning", **urls)
        self._run = folder / "run"

    def start(self) -> None:
        self._standalone.start()

    def close(self) -> None:
        self._standalone.close()

    @property
    def broker_url(self) -> str:
        return str(self._standalone.ready["broker_url"])

    @property
    def websocket_url(self) -> str:
        return str(self._standalone.ready["web_url"]).replace("http", "ws", 1)

    @property
    def admin_token(self) -> str:
        return self._standalone.admin_token

    def http(self, method: str, path: str, body: Any = None) -> Answer:
        return self._standalone.http(method, path, body, self.admin_token)

    def own_url(self, name: str) -> str:
        return str(json.loads((self._run / f"{name}.json").read_bytes())["own_url"])

    def pid(self, name: str) -> int:
        return int(self._standalone.child(name)["pid"])

    def kill_web(self) -> None:
        self._standalone.kill_child("web")

    def until_all_run(self) -> None:
        files = [self._run / f"{name}.json" for name in self.names]
        eventually_sync(lambda: all(file.exists() for file in files), AGAIN_S)


def send_signal(platform: Platform, name: str, number: signal.Signals) -> None:
    os.kill(platform.pid(name), number)
