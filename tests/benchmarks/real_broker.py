"""The real broker, as a process of its own in a fresh data directory, with public/default in its feed; and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from controlplane.supervisor.standalone import environment, python
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.schema import Change, FeedApply
from messaging.identity import create_secrets, service_token
from messaging.settings import Settings

_START_S = 30.0


class Cost(NamedTuple):
    """CPU seconds (user and system) since the process began; bytes resident now and at most."""

    cpu_s: float
    resident_bytes: int
    resident_bytes_max: int


class RealBroker:
    def __init__(self, folder: Path, **values: object) -> None:
        self.settings = Settings(data_dir=str(folder), broker_port=0, ws_port=0, log_level="warning", **values)  # type: ignore[arg-type]
        create_secrets(self.settings)
        self.log = (folder / "broker.log").open("wb")
        start = time.perf_counter()
        variables = os.environ | environment(self.settings)
        (folder / "run" / "broker.json").unlink(missing_ok=True)  # of a broker that was killed here before
        self.process = subprocess.Popen(python("messaging.broker"), env=variables, stdout=self.log, stderr=self.log)
        self.addresses = self._wait(folder / "run" / "broker.json")
        self.start_s = time.perf_counter() - start
        self._open_public_default()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.addresses["broker_url"])
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def cost(self) -> Cost:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        sizes = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                sizes[name] = int(value.split()[0]) * 1024
        return Cost((int(fields[11]) + int(fields[12])) / ticks, sizes["VmRSS"], sizes["VmHWM"])

    def hot_loops(self) -> str:
        return self._rpc().call("status").hot_loops

    def kill(self) -> None:
        """As a crash would: at once, with nothing finished."""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _wait(self, path: Path) -> dict[str, str]:
        deadline = time.monotonic() + _START_S
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                words = Path(self.log.name).read_text()[-2000:]
                sys.exit(f"the broker did not start: {words}")
            time.sleep(0.01)
        answer: dict[str, str] = json.loads(path.read_bytes())
        return answer

    def _rpc(self) -> AdminRpc:
        return AdminRpc(lambda: self.addresses["rpc_url"], lambda: service_token(self.settings, "web"))

    def _open_public_default(self) -> None:
        """What the control plane would tell it."""
        changes = [
            Change(version=1, kind="tenant", key="public", state={"admin_roles": [], "allowed_clusters": ["standalone"]}),
            Change(
                version=2,
                kind="namespace",
                key="public/default",
                state={"policies": {}, "grants": {}, "topic_grants": {}, "subscription_roles": {}},
            ),
        ]
        rpc = self._rpc()
        rpc.call("feed.apply", FeedApply(from_version=0, to_version=2, full=True, changes=changes))
        rpc.close()
