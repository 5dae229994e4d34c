"""A child process: spawn, readiness, output and signals. `machine.py` decides what happens when."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from controlplane.supervisor.notices import ChildLog
from controlplane.supervisor.plan import ChildSpec

_PR_SET_PDEATHSIG = 1
_SOCKET_TIMEOUT_S = 0.2


def _before_exec(parent: int, on_orphan: int) -> Callable[[], None]:
    """What the child does between fork and exec: it will not outlive its parent, even if that died a moment ago."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def run() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(on_orphan), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return run


class Process:
    """A child from spawn to reaping, again and again. `log` and `pinned` outlive one run of it."""

    def __init__(self, spec: ChildSpec, environment: Mapping[str, str], log: ChildLog) -> None:
        self.spec = spec
        self.log = log
        self.pid = 0  # of the last run
        self.answer: dict[str, Any] = {}  # contents of the ready file
        self._environment = dict(environment) | spec.env
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> int:
        """Descriptor to read the child's output from; -1 while there is none."""
        return self._popen.stdout.fileno() if self._popen and self._popen.stdout else -1

    def spawn(self) -> None:
        """Raises `OSError` if the program cannot be run at all."""
        for left_behind in (self.spec.ready_file, self.spec.ready_socket):
            _remove(left_behind)
        on_orphan = signal.SIGKILL if self.spec.kill_on_orphan else signal.SIGTERM
        self._popen = subprocess.Popen(
            self.spec.argv,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # signals reach its own children too, and Ctrl-C reaches it only through the supervisor
            preexec_fn=_before_exec(os.getpid(), on_orphan),
        )
        assert self._popen.stdout is not None
        os.set_blocking(self._popen.stdout.fileno(), False)
        self.pid = self._popen.pid

    def ready(self) -> bool:
        if self.spec.ready_file:
            return self._file_says_ready()
        return bool(self.spec.ready_socket) and answers_ping(self.spec.ready_socket)

    def _file_says_ready(self) -> bool:
        try:
            value = json.loads(Path(self.spec.ready_file).read_bytes())
        except (OSError, ValueError):
            return False
        if not isinstance(value, dict) or value.get("pid", self.pid) != self.pid:
            return False
        self.answer = value
        for variable, key in self.spec.pins.items():
            port = urlsplit(str(value.get(key, ""))).port
            if port:
                self._environment[variable] = str(port)
        return True

    def pump(self) -> bool:
        """Reads available output without blocking. False at end of file."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        self.log.feed(data)
        return bool(data)

    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal. Reaps it."""
        return self._popen.poll() if self._popen else None

    def reaped(self) -> None:
        """Cleans up after a process that ended: kills the rest of its process group and logs its remaining output."""
        assert self._popen is not None and self._popen.stdout is not None
        self.signal(signal.SIGKILL)
        while self.pump() and self._more():
            pass
        self._popen.stdout.close()
        self._popen = None
        _remove(self.spec.ready_file)

    def _more(self) -> bool:
        return bool(select.select([self.output], [], [], 0)[0])

    def signal(self, number: int) -> None:
        """Sends a signal to the child's process group."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _remove(path: str) -> None:
    """What stays is not believed: it names another process."""
    if path:
        with suppress(OSError):
            Path(path).unlink()


def answers_ping(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SOCKET_TIMEOUT_S)
            connection.connect(path)
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
