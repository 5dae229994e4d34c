"""Which broker other processes of this machine speak to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from messaging.broker_files import AVOIDED_S, BrokerChoice, any_broker
from messaging.errors import NotReady
from messaging.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(data_dir=str(tmp_path))


@pytest.fixture(scope="module")
def ended_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def wrote(settings: Settings, name: str, pid: int) -> None:
    (settings.data_path / "run" / f"{name}.json").write_text(json.dumps({"pid": pid, "rpc_url": name}))


def test_the_only_one_whatever_its_pid(settings: Settings, ended_pid: int) -> None:
    with pytest.raises(FileNotFoundError):
        any_broker(settings)
    wrote(settings, "broker", ended_pid)
    assert any_broker(settings)["rpc_url"] == "broker", "it may run in a container, where this number is another process"


def test_of_several_the_first_that_runs(settings: Settings, ended_pid: int) -> None:
    for number in (10, 2):
        wrote(settings, f"broker-{number}", os.getpid())
    assert any_broker(settings)["rpc_url"] == "broker-2", "the first one is starting"
    wrote(settings, "broker", ended_pid)
    assert any_broker(settings)["rpc_url"] == "broker-2"
    wrote(settings, "broker", os.getpid())
    assert any_broker(settings)["rpc_url"] == "broker"


def test_none_that_runs_is_an_error(settings: Settings, ended_pid: int) -> None:
    wrote(settings, "broker", ended_pid)
    wrote(settings, "broker-2", ended_pid)
    with pytest.raises(FileNotFoundError):
        any_broker(settings)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}'])
def test_a_file_that_is_not_whole_is_passed_over(settings: Settings, content: str) -> None:
    wrote(settings, "broker-2", os.getpid())
    (settings.data_path / "run" / "broker.json").write_text(content)
    assert any_broker(settings)["rpc_url"] == "broker-2"
    (settings.data_path / "run" / "broker-2.json").write_text(content)
    with pytest.raises((OSError, ValueError)):
        any_broker(settings)


def test_a_broker_that_does_not_answer_is_left_alone_for_a_while(settings: Settings) -> None:
    clock = [0.0]
    choice = BrokerChoice(settings, lambda: clock[0])
    wrote(settings, "broker", os.getpid())
    choice.did_not_answer("broker")
    assert choice.rpc_url() == "broker", "there is no other"
    wrote(settings, "broker-2", os.getpid())
    assert choice.rpc_url() == "broker-2"
    choice.did_not_answer("broker-2")
    assert choice.rpc_url() == "broker", "neither answers"
    clock[0] = AVOIDED_S
    choice.did_not_answer("broker-2")
    assert choice.rpc_url() == "broker"


def test_without_a_broker_it_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(NotReady, match="not running"):
        BrokerChoice(settings).rpc_url()
    wrote(settings, "broker", os.getpid())
    (settings.data_path / "run" / "broker.json").write_text("[]")
    with pytest.raises(NotReady, match=r"broker\.json .* cannot be read \(ValueError\)"):
        BrokerChoice(settings).rpc_url()
