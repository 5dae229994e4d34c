"""Runs the list on a platform with one kind of client, side by side: scenarios mostly wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.compat.both_clients.clients import Client, OurClient, StockClient, WritingAndReading
from tests.compat.both_clients.scenarios import SCENARIOS, Stage
from tests.compat.scenarios import Platform, World

RECORDED = Path(__file__).with_name("recorded.json")
AT_ONCE = 8
Make = Callable[[Platform], Client]


def _stock(platform: Platform) -> Client:
    return StockClient(platform.broker_url, platform.token, platform.log_file)


def _ours(platform: Platform) -> Client:
    return OurClient(platform.broker_url, platform.token)


def _ours_over_websockets(platform: Platform) -> Client:
    return OurClient(platform.ws_url, platform.token)


CLIENTS: dict[str, Make] = {
    "Apache's over TCP": _stock,
    "ours over TCP": _ours,
    "written by Apache's, read by ours": lambda platform: WritingAndReading(_stock(platform), _ours(platform)),
    "written by ours, read by Apache's": lambda platform: WritingAndReading(_ours(platform), _stock(platform)),
    "ours over WebSockets": _ours_over_websockets,
    "written by Apache's, read by ours over WebSockets": lambda platform: WritingAndReading(
        _stock(platform), _ours_over_websockets(platform)
    ),
    "written by ours over WebSockets, read by Apache's": lambda platform: WritingAndReading(
        _ours_over_websockets(platform), _stock(platform)
    ),
    "ours over WebSockets on the web port": lambda platform: OurClient(platform.web_url.replace("http", "ws", 1), platform.token),
}
OVER_TCP = tuple(CLIENTS)[:4]  # what a real Pulsar takes


def run(name: str, make: Make, platform: Platform) -> Any:
    """The outcome; what a scenario did not expect is an outcome too."""
    world = World(platform, name.replace("_", "-"))
    stage = None
    try:
        stage = Stage(lambda: make(platform), world)
        outcome = SCENARIOS[name](stage)
    except Exception as error:  # reported with the others, whatever it is
        outcome = {"failed": world.plain(f"{type(error).__name__}: {error}")[:500]}
    finally:
        if stage is not None:
            stage.close()
        world.close()
    return json.loads(json.dumps(outcome))


def run_all(make: Make, platform: Platform, names: list[str] | None = None, at_once: int = AT_ONCE) -> dict[str, Any]:
    names = list(SCENARIOS) if names is None else names
    with ThreadPoolExecutor(at_once, thread_name_prefix="scenario") as pool:
        return dict(zip(names, pool.map(lambda name: run(name, make, platform), names), strict=True))


def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def record(outcomes: dict[str, Any]) -> None:
    lines = [f"  {json.dumps(name)}: {json.dumps(outcomes[name], ensure_ascii=False)}" for name in SCENARIOS if name in outcomes]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
