"""Small children for the supervisor, and a supervisor as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from controlplane.supervisor import lock
from controlplane.supervisor.plan import ChildSpec, Plan
from tests.support.waiting import eventually_sync

# Serves a port until SIGTERM: takes the port as a process of the platform would, and says so in its ready file.
SERVER = """
import json, os, signal, socket, sys
ready, name = sys.argv[1:3]
listener = socket.create_server(("127.0.0.1", int(os.environ.get("FAKE_PORT", "0"))))
url = "http://127.0.0.1:%d" % listener.getsockname()[1]
print("hello from", name, flush=True)
with open(ready + ".new", "w") as file:
    json.dump({"pid": os.getpid(), "url": url}, file)
os.rename(ready + ".new", ready)
def stop(*_):
    print("goodbye from", name, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
while True:
    signal.pause()
"""
STUBBORN = SERVER.replace("signal.signal(signal.SIGTERM, stop)", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
# Starts a process of its own that would outlive it.
PARENT = SERVER.replace("listener =", "import subprocess; subprocess.Popen(['sleep', '1000'])\nlistener =")


def child(folder: Path, name: str, script: str = SERVER, **options: Any) -> ChildSpec:
    ready = folder / "run" / f"{name}.json"
    return ChildSpec(name, [sys.executable, "-c", script, str(ready), name], ready_file=str(ready), **options)


def plan(folder: Path, *children: ChildSpec, **options: Any) -> Plan:
    return Plan(str(folder), list(children), started_s=time.monotonic(), **options)


class Running:
    """A supervisor in a process of its own, as `magnetar standalone` makes one."""

    def __init__(self, plan: Plan) -> None:
        self.folder = Path(plan.data_dir)
        descriptor = lock.acquire(plan.data_dir)
        plan_file = self.folder / "plan.json"
        plan_file.write_text(plan.to_json())
        self.output = (self.folder / "output").open("w+b")
        with plan_file.open("rb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "controlplane.supervisor", str(file.fileno()), str(descriptor)],
                stdout=self.output,
                stderr=self.output,
                pass_fds=(file.fileno(), descriptor),
            )
        import os

        os.close(descriptor)

    def ready(self, timeout_s: float = 20) -> dict[str, Any]:
        path = self.folder / "ready.json"

        def look() -> bool:
            assert self.process.poll() is None, self.text()
            assert path.exists(), self.text()
            return True

        eventually_sync(look, timeout_s)
        value: dict[str, Any] = json.loads(path.read_text())
        return value

    def status(self) -> dict[str, dict[str, Any]]:
        """run/supervisor.json, children by name."""
        value = json.loads((self.folder / "run" / "supervisor.json").read_text())
        return {entry["name"]: entry for entry in value["children"]}

    def text(self) -> str:
        return (self.folder / "output").read_text()

    def wait(self, timeout_s: float = 15) -> int:
        return self.process.wait(timeout_s)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.output.close()
