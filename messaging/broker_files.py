"""How processes of this machine find a broker: by run/broker.json and run/broker-N.json, written by brokers that are ready."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from messaging.errors import NotReady
from messaging.settings import Settings

AVOIDED_S = 10.0


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


class BrokerChoice:
    """Which broker a process calls. One that did not answer is left alone for `AVOIDED_S` if there are others. Thread-safe."""

    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now_s = now_s
        self._avoided: dict[str, float] = {}  # until when, by `rpc_url`

    def rpc_url(self) -> str:
        """The setting, or what the broker wrote when it became ready. Raises `NotReady`."""
        if self._settings.broker_rpc_url:
            return self._settings.broker_rpc_url
        now_s = self._now_s()
        self._avoided = {url: until_s for url, until_s in self._avoided.items() if until_s > now_s}
        try:
            return str(any_broker(self._settings, self._avoided)["rpc_url"])
        except FileNotFoundError:
            raise NotReady(
                "the broker is not running (run/broker.json does not exist in the data directory): start it and try again"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotReady(
                f"run/broker.json in the data directory cannot be read ({type(error).__name__}): restart the broker"
            ) from None

    def did_not_answer(self, rpc_url: str) -> None:
        self._avoided = self._avoided | {rpc_url: self._now_s() + AVOIDED_S}


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
