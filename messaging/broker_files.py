"""run/broker.json and run/broker-N.json, which brokers of this machine write when they are ready: how its processes find one."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from pathlib import Path
from typing import Any

from messaging.settings import Settings


def any_broker(settings: Settings, avoided: Container[str] = ()) -> dict[str, Any]:
    """What the first broker wrote, or of several the first one that runs, rather one whose `rpc_url` is not `avoided`. Reads small
    files. Raises `OSError`, `ValueError`."""
    folder = settings.data_path / "run"
    files = [folder / "broker.json", *sorted(folder.glob("broker-*.json"), key=_number)]
    if len(files) == 1:
        return _read(files[0])  # whose process may be in a container, where its number means another one
    running: list[dict[str, Any]] = []
    for file in files:
        try:
            content = _read(file)
            if _runs(int(content["pid"])):
                running.append(content)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another one may be whole
    if not running:
        raise FileNotFoundError(f"none of the brokers of {folder} runs")
    return next((content for content in running if content.get("rpc_url") not in avoided), running[0])


def _read(file: Path) -> dict[str, Any]:
    content = json.loads(file.read_bytes())
    if not isinstance(content, dict):
        raise ValueError(f"{file} is no JSON object")
    return content


def _number(file: Path) -> int:
    text = file.stem.removeprefix("broker-")
    return int(text) if text.isdecimal() else 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
