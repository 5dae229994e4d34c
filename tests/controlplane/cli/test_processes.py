"""`magnetar broker`, `web` and `worker`, each by itself: serves, says where, and stops cleanly on SIGTERM."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cli.command_line import COMMAND
from tests.support.waiting import eventually_sync


@pytest.mark.parametrize(
    ("name", "options", "answers"),
    [
        ("broker", ["--broker-port", "0", "--ws-port", "0"], {"broker_url", "ws_url", "rpc_url"}),
        ("web", ["--web-port", "0"], {"web_url", "internal_url"}),
        ("worker", [], set()),
    ],
)
def test_a_process_by_itself(name: str, options: list[str], answers: set[str], tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAGNETAR_", "DJANGO_"))}
    ready = tmp_path / "data" / "run" / f"{name}.json"
    output = tmp_path / "output"
    with output.open("wb") as file:
        command = [*COMMAND, name, "--data-dir", str(tmp_path / "data"), *options]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:

        def look() -> bool:
            assert process.poll() is None, output.read_text()
            return ready.exists()

        eventually_sync(look, 60)
        said: dict[str, Any] = json.loads(ready.read_text())
        assert said["pid"] == process.pid
        assert answers <= {key for key, value in said.items() if value}
        process.terminate()
        assert process.wait(15) == 0, output.read_text()
        assert not ready.exists()
        assert "Traceback" not in output.read_text()
    finally:
        process.kill()
        process.wait()
