"""The programs of docs/examples do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers.running_broker import RunningBroker

FOLDER = Path(__file__).parents[3] / "docs" / "examples"
# What each of them returns, or its text.
RESULTS: dict[str, Any] = {
    "send_and_receive": ["hello (en)", "nothing is left"],
    "many_messages": 5000,
    "keys_in_order": {f"customer-{number}": list(range(number, 40, 4)) for number in range(4)},
    "avro": "[Order(number=1), Order(number=2), PricedOrder(number=1, price=1.0), PricedOrder(number=2, price=9.5)]",
    "dead_letters": (3, "poison of example-failing"),
    "delayed": ["now", "later"],
    "latest_values": {"apples": "11.00", "pears": "3.20", "afterwards": {"apples": "11.00"}},
    "replay": [["2", "3"], ["0", "1", "2", "3"], ["0", "1", "2", "3"]],
    "encrypted": ("the plan", True),
    "without_a_loop": ["first", "second", "third"],
}


def test_each_of_them_is_tried_and_listed() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert names == {*RESULTS} and all(f"]({name}.py)" in page for name in names)


@pytest.mark.parametrize("name", RESULTS)
async def test_it_returns_what_it_says(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look for their module there
    spec.loader.exec_module(module)
    arguments = (f"pulsar://127.0.0.1:{broker.port}", broker.token("owner"), "acme/orders")
    if inspect.iscoroutinefunction(module.main):
        result = await module.main(*arguments)
    else:
        result = await asyncio.to_thread(module.main, *arguments)
    assert result == RESULTS[name] or repr(result) == RESULTS[name]
