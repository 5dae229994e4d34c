"""Which broker other processes of this machine speak to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from messaging.broker_files import any_broker
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
