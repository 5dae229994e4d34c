"""How processes of this machine find a broker: by run/broker.json and run/broker-N.json, written by brokers that are ready."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from messaging.settings import Settings


def any_broker(settings: Settings) -> dict[str, Any]:
    """What the first broker wrote, or of several the first one that runs. Reads small files. Raises `OSError`, `ValueError`."""
    folder = settings.data_path / "run"
    files = [folder / "broker.json", *sorted(folder.glob("broker-*.json"), key=_number)]
    if len(files) == 1:
        return _read(files[0])  # whose process may be in a container, where its number means another one
    for file in files:
        try:
            content = _read(file)
            if _runs(int(content["pid"])):
                return content
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another one may be whole
    raise FileNotFoundError(f"none of the brokers of {folder} runs")


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
