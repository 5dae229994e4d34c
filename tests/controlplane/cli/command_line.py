"""Runs `magnetar` as a person does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

COMMAND = [str(Path(sys.executable).with_name("magnetar"))]


def magnetar(*arguments: str, lay_down: Callable[[], None] | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAGNETAR_")} | variables
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=environment, preexec_fn=lay_down)


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """The one line."""
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("magnetar: "), result.stderr
    return lines[0].removeprefix("magnetar: ")
