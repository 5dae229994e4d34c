"""`magnetar tune` and `magnetar topics tune`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from controlplane.cli.remote import contexts
from messaging.client.savings import TopicTraffic
from messaging.client.tuning_report import TuneQuestion, tune
from messaging.limits.tuning import OWN_SETTINGS
from tests.support.fake_api import FakeApi, fake_api

T = "tenants/acme/namespaces/orders/topics/t"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "acme", "secret")}))
        yield served


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*arguments])
    return done.exit_code, done.output


GIVEN = ("tune", "--message-bytes", "200", "--rate", "20000", "--partitions", "8")
CONTRADICTING = ("--batch-messages-max", "2000", "--pending-max", "1000")


def test_what_contradicts_itself_is_a_warning() -> None:
    code, said = run(*GIVEN, *CONTRADICTING)
    assert code == 0 and said.startswith("Warning: a batch can never have batch_messages_max = 2000")
    assert "Messages in an entry: 200.0 by the settings that producers have now" in said
    code, said = run(*GIVEN)
    assert code == 0 and "Warning" not in said and "batch_messages_max" in said
    assert "money" in said and "unknown: give --gib-price" in said


def test_every_setting_that_is_compared_is_an_option() -> None:
    names = {parameter.name for parameter in main.commands["tune"].params}
    assert names >= {*OWN_SETTINGS, "gib_price", "cpu_hour_price"}


def test_json_has_what_the_api_answers() -> None:
    told = json.loads(run(*GIVEN, *CONTRADICTING, "--json", "--gib-price", "0.1")[1])
    assert told["contradictions"] and told["saved_a_day"]["money"] == 0.0
    assert told["compared_with"] == "own_settings"


@pytest.mark.parametrize("wrong", [("--latency-ms", "nan"), ("--batch-messages-max", "0"), ("--rate", "0"), ("--gib-price", "-1")])
def test_what_is_no_number_within_the_limits_is_refused(wrong: tuple[str, str]) -> None:
    code, said = run(*GIVEN, *wrong)
    assert code == 2 and wrong[0] in said and "Traceback" not in said


def test_of_a_topic_the_platform_is_asked(api: FakeApi) -> None:
    report = tune(TuneQuestion(TopicTraffic(20_000.0, 200.0, 1.0, 2, 2), gib_price=0.1)).as_json()
    api.answer("POST", f"{T}/tune", (200, report))
    code, said = run("topics", "tune", "acme/orders/t", "--gib-price", "0.1", "--batch-messages-max", "10", "--json")
    assert code == 0 and json.loads(said)["saved_a_day"]["messages_per_entry"] == 100.0
    assert api.asked[-1].body == {"latency_ms": 10.0, "keyed": False, "gib_price": 0.1, "batch_messages_max": 10}
    code, said = run("topics", "tune", "acme/orders/t")
    assert code == 0 and "batch_delay_ms" in said and "Messages in an entry: 1.0 as producers batch now" in said


def test_a_topic_without_traffic_is_said(api: FakeApi) -> None:
    problem = {"detail": "nothing is published to persistent://acme/orders/t now", "code": "precondition_failed", "request_id": "r"}
    api.answer("POST", f"{T}/tune", (412, problem))
    code, said = run("topics", "tune", "acme/orders/t")
    assert code == 5 and "nothing is published to persistent://acme/orders/t now" in said
