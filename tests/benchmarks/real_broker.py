"""The real broker, as a process of its own in a fresh data directory, with public/default in its feed; and what it costs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from controlplane.child_process import environment, python
from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import FEED_APPLY, FEED_VERSION, STATUS, TOPICS_CREATE, TOPICS_DELETE, TOPICS_UNLOAD
from messaging.adminrpc.topics import TopicCreate, TopicDelete, TopicRef
from messaging.errors import TopicNotFound
from messaging.identity import create_secrets, service_token
from messaging.settings import Settings
from tests.benchmarks import processes
from tests.benchmarks.processes import Cost

_START_S = 30.0
_STOP_S = 15.0
_LAUNCHER = Path(__file__).with_name("launch.py")


class RealBroker:
    """`switches` are those of `launch.py`; without any the broker is started as the product starts it. `values`: settings."""

    def __init__(self, folder: Path, *switches: str | Path, **values: object) -> None:
        free_ports = {"broker_port": 0, "ws_port": 0}
        values = {"auto_created_topics_burst": 1_000_000} | free_ports | values  # as fast as it can
        self.settings = Settings(data_dir=str(folder), log_level="warning", **values)  # type: ignore[arg-type]
        create_secrets(self.settings)
        announced = self.settings.broker_run_file
        self.log = (folder / f"{announced.stem}.log").open("wb")  # several may be in one folder
        start = time.perf_counter()
        variables = os.environ | environment(self.settings)
        announced.unlink(missing_ok=True)  # of a broker that was killed here before
        self.rpc = AdminRpc(lambda: self.addresses["rpc_url"], lambda: service_token(self.settings, "web"), timeout_s=60)
        command = [sys.executable, "-P", _LAUNCHER, *switches] if switches else python("messaging.broker")
        self.process = processes.start(command, self.log, variables)
        self.addresses = self._wait(announced)
        self.start_s = time.perf_counter() - start
        self._open_public_default()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.addresses["own_url"])  # not the one that several share
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def cost(self) -> Cost:
        return processes.cost(self.process.pid)

    def hot_loops(self) -> str:
        return self.rpc.call(STATUS, BrokerAsked()).hot_loops

    def create_topic(self, topic: str) -> None:
        self.rpc.call(TOPICS_CREATE, TopicCreate(topic=topic))

    def forget(self, topic: str) -> None:
        """Deletes the topic and what is stored of it."""
        try:
            self.rpc.call(TOPICS_DELETE, TopicDelete(topic=topic, force=True))
        except TopicNotFound:
            pass

    def unload(self, topic: str) -> None:
        """Lets go of all that it has in memory of the topic."""
        self.rpc.call(TOPICS_UNLOAD, TopicRef(topic=topic))

    def kill(self) -> None:
        """As a crash would: at once, with nothing finished."""
        self._end(0.0)

    def close(self) -> None:
        self._end(_STOP_S)

    def _end(self, patience_s: float) -> None:
        self.rpc.close()
        processes.end(self.process, patience_s)
        self.log.close()

    def _wait(self, path: Path) -> dict[str, str]:
        deadline = time.monotonic() + _START_S
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                words = Path(self.log.name).read_text()[-2000:]
                sys.exit(f"the broker did not start: {words}")
            time.sleep(0.01)
        answer: dict[str, str] = json.loads(path.read_bytes())
        return answer

    def tell(self, kind_key_states: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """What the control plane would tell it, after what it was told before."""
        known_version = self.rpc.call(FEED_VERSION, Request()).version
        version = known_version + 1
        changes = [FeedChange(version=version, kind=kind, key=key, state=state) for kind, key, state in kind_key_states]
        self.rpc.call(
            FEED_APPLY, FeedApply(from_version=known_version, to_version=version, changes=changes, newest_version=version)
        )

    def _open_public_default(self) -> None:
        """What the control plane would tell it."""
        changes = [
            FeedChange(
                version=1, kind="tenant", key="public", state={"uid": "u1", "admin_roles": [], "allowed_clusters": ["standalone"]}
            ),
            FeedChange(
                version=2,
                kind="namespace",
                key="public/default",
                state={"policies": {}, "grants": {}, "topic_grants": {}, "subscription_roles": {}},
            ),
        ]
        self.rpc.call(FEED_APPLY, FeedApply(from_version=0, to_version=2, full=True, changes=changes))
