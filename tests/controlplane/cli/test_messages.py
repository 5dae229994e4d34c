"""`magnetar produce` and `consume`: what they publish and print, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.remote import contexts
from tests.support.brokers.running_broker import running_broker

TOPIC = "acme/orders/t"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def signed_in(broker_url: str, token: str = "") -> None:
    contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", "http://127.0.0.1:1", broker_url, "acme", token)}))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


async def test_what_is_produced_is_consumed_and_acknowledged(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as broker:
        signed_in(broker.ws_url, broker.token("owner"))
        produced = await asyncio.to_thread(run, "produce", TOPIC, "one", "two", "--key", "k", "--property", "a=1=2")
        assert produced.exit_code == 0, produced.output
        ids = produced.output.split()
        first = await asyncio.to_thread(run, "consume", TOPIC, "s", "--position", "earliest", "--count", "1", "--json")
        assert first.exit_code == 0, first.output
        message = json.loads(first.output)
        assert (message["text"], message["key"], message["properties"]) == ("one", "k", {"a": "1=2"})
        assert message["message_id"] == ids[0] and len(ids) == 2
        second = await asyncio.to_thread(run, "consume", TOPIC, "s", "--count", "1", "--timeout-s", "10")
        assert (second.exit_code, second.output) == (0, "two\n")


@pytest.mark.parametrize("given", ["a", "=1"])
def test_a_property_without_a_name_or_value_is_refused(given: str) -> None:
    signed_in("pulsar://127.0.0.1:1")
    refused = run("produce", TOPIC, "x", "--property", given)
    assert refused.exit_code == 64
    assert f"{given!r} is no property: use NAME=VALUE" in refused.output


@pytest.mark.parametrize("arguments", [("produce", TOPIC, "x"), ("consume", TOPIC, "s")])
def test_a_wrong_address_of_the_broker_is_said_with_how_to_change_it(arguments: tuple[str, ...]) -> None:
    with socket.socket() as bound:  # nothing listens there, and nobody else can
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        signed_in(f"ws://127.0.0.1:{port}")
        refused = run(*arguments)
    assert refused.exit_code == 6
    assert f"127.0.0.1:{port}" in refused.output and "magnetar login --broker-url" in refused.output
