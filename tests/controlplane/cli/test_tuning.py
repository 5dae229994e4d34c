"""`magnetar topics tune`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from controlplane.cli.remote import contexts
from tests.support.fake_api import FakeApi, fake_api

T = "tenants/acme/namespaces/orders/topics/t"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "acme", "secret")}))
        yield served


def publishes(api: FakeApi, path: str, rate: float, entries: int) -> None:
    stats: dict[str, Any] = {"msgRateIn": rate, "msgThroughputIn": rate * 200, "msgInCounter": 1000, "publishers": [{}, {}]}
    api.answer("GET", f"{path}/stats", (200, {"stats": stats}))
    api.answer("GET", f"{path}/internal-stats", (200, {"stats": {"entriesAddedCounter": entries}}))


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["topics", "tune", "acme/orders/t", *arguments])
    return done.exit_code, done.output


def test_what_would_be_saved_is_said_from_the_traffic_of_all_partitions(api: FakeApi) -> None:
    api.answer("GET", T, (200, {"topic": "t", "partitions": 2}))
    for number in range(2):
        publishes(api, f"{T}-partition-{number}", 10_000.0, 1000)
    code, said = run("--json", "--gib-price", "0.1")
    assert code == 0
    told = json.loads(said)
    assert told["measured"] == {
        "messages_per_s": 20_000.0,
        "message_bytes": 200.0,
        "messages_per_entry": 1.0,
        "partitions": 2,
        "producers": 2,
    }
    assert told["saved_a_day"]["messages_per_entry"] == 100.0 and told["saved_a_day"]["money"] > 0
    code, said = run()
    assert code == 0 and "batch_delay_ms" in said and "money" in said and "unknown: give --gib-price" in said


def test_a_topic_without_traffic_is_said(api: FakeApi) -> None:
    api.answer("GET", T, (200, {"topic": "t", "partitions": 0}))
    publishes(api, T, 0.0, 0)
    code, said = run()
    assert code == 7 and "nothing is published to persistent://acme/orders/t now" in said
