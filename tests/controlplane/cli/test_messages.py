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
from messaging import client as magnetar
from tests.support.brokers.running_broker import running_broker
from tests.support.fake_api import fake_api
from tests.support.waiting import eventually

TOPIC = "acme/orders/t"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def signed_in(broker_url: str, token: str = "", url: str = "http://127.0.0.1:1") -> None:
    contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", url, broker_url, "acme", token)}))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


async def test_messages_are_pushed_to_tail_as_they_are_published(tmp_path: Path) -> None:
    """It asked the API every half second."""
    async with running_broker(tmp_path / "data") as broker:
        with fake_api() as api:
            api.answer("GET", "tenants/acme/namespaces/orders/topics/t", (200, {}))
            signed_in(broker.ws_url, broker.token("owner"), api.url)
            async with (
                magnetar.connect(broker.ws_url, key=broker.token("owner")) as client,
                client.producer(f"persistent://{TOPIC}") as producer,
            ):
                await producer.send(b"before")
                tailing = asyncio.create_task(asyncio.to_thread(run, "tail", TOPIC, "--count", "2", "--json"))
                topic = broker.service.topics.loaded[f"persistent://{TOPIC}"]
                await eventually(lambda: len(topic.subscriptions.table) == 1)
                await producer.send(b"one", key="k", properties={"a": "1"})
                message_id = await producer.send(b"\xff")
                tailed = await tailing
            assert tailed.exit_code == 0, tailed.output
            first, end = json.JSONDecoder().raw_decode(tailed.output)
            second = json.loads(tailed.output[end:])
            assert (first["text"], first["headers"]["X-Pulsar-partition-key"], first["properties"]) == ("one", "k", {"a": "1"})
            assert (second["text"], second["payload_base64"]) == (None, "/w==")
            assert second["message_id"] == f"{message_id.ledger_id}:{message_id.entry_id}:-1:-1"
            assert len(api.asked) == 1
            await eventually(lambda: not topic.subscriptions.table)


def test_tail_makes_no_topic() -> None:
    with fake_api() as api:
        signed_in("ws://127.0.0.1:1", "", api.url)
        refused = run("tail", TOPIC)
    assert refused.exit_code == 4


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
