"""A whole `magnetar standalone` on free ports in a directory of its own, for tests that drive the platform as its users do."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from controlplane.supervisor import lock
from tests.support.waiting import eventually_sync

_READY_S = 60.0  # far above the budget: a loaded machine is not what these tests are about; `ready_s` tells


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def ask(
    url: str,
    method: str,
    body: Any = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    authority: Path | None = None,
) -> Answer:
    """One request; any status is an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    context = ssl.create_default_context(cafile=str(authority)) if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return Answer(response.status, dict(response.headers), response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read().decode())


class Standalone:
    """`variables` are MAGNETAR_* settings of this run. `start` may be called again after the end."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.folder = folder
        self.program = Path(sys.executable).with_name("magnetar")
        self.arguments = ["--data-dir", str(folder), "--broker-port", "0", "--web-port", "0", "--ws-port", "0", *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_", "PYTEST"))}
        self.environment = kept | variables
        self.ready: dict[str, Any] = {}
        self.closed = False

    def start(self) -> Standalone:
        self.closed = False
        with (self.folder.parent / f"{self.folder.name}.output").open("ab") as output:
            command = [str(self.program), "standalone", *self.arguments]
            # Where nothing of the checkout is, which a program might find beside itself.
            self.process = subprocess.Popen(
                command, cwd="/", stdout=output, stderr=output, env=self.environment, start_new_session=True
            )
        ready = self.folder / "ready.json"

        def look() -> bool:
            assert self.process.poll() is None, self.output()
            if not ready.exists():
                return False
            self.ready = json.loads(ready.read_text())
            return bool(self.ready["pid"] == self.process.pid)

        try:
            eventually_sync(look, _READY_S)
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}\n{self.output()[-8000:]}") from None
        return self

    def output(self) -> str:
        return (self.folder.parent / f"{self.folder.name}.output").read_text(errors="replace")

    # --- the processes ---

    def state(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.folder / "run" / "supervisor.json").read_text())
        return value

    def child(self, name: str) -> dict[str, Any]:
        return next(child for child in self.state()["children"] if child["name"] == name)

    def kill_child(self, name: str) -> None:
        """`kill -9`, and back when the child serves again."""
        before = self.child(name)
        os.kill(before["pid"], signal.SIGKILL)
        eventually_sync(lambda: self.child(name)["restarts"] > before["restarts"] and self.child(name)["state"] == "ready", 30)

    def make_whole(self) -> None:
        """Waits until all of its processes serve, whatever the test before left killed or standing still. Only reads a file where
        nothing is amiss."""
        assert self.process.poll() is None, f"the platform ended with {self.process.returncode}:\n{self.output()[-8000:]}"
        for child in self.state()["children"]:
            with suppress(ProcessLookupError):
                os.kill(child["pid"], signal.SIGCONT)

        def waited_for() -> list[str]:
            children = [child for child in self.state()["children"] if child["state"] != "done"]
            return [child["name"] for child in children if child["state"] != "ready" or not lock.alive(child["pid"])]

        eventually_sync(lambda: not waited_for(), 30)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """The exit code, and how many seconds it took."""
        start = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(30), time.monotonic() - start

    def pids(self) -> list[int]:
        return [self.process.pid, *(child["pid"] for child in self.state()["children"])]

    def left(self, pids: list[int]) -> list[int]:
        return [pid for pid in pids if lock.alive(pid)]

    def close(self) -> None:
        self.closed = True
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    # --- what users hold ---

    @property
    def admin_token(self) -> str:
        return Path(self.ready["admin_token_file"]).read_text().strip()

    @property
    def console_password(self) -> str:
        return Path(self.ready["console_password_file"]).read_text().strip()

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        url: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request to the web process (or to `url`); any status is an answer."""
        return ask((url or self.ready["web_url"]) + path, method, body, token, headers, self.folder / "tls" / "ca.pem")

    def run_python(self, script: str, timeout_s: float = 110.0) -> str:
        """Runs `script` as a process of the platform would be: with its settings and its Django. Returns what it prints."""
        environment = self.environment | {"MAGNETAR_DATA_DIR": str(self.folder), "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
        script = f"import django; django.setup()\n{script}"
        done = subprocess.run(
            [sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
