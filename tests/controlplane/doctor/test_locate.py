"""`magnetar doctor` looks at the platform that runs, and names only options that there are."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest

from controlplane.cli import main
from controlplane.doctor import locate
from messaging.settings import Settings


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with one supervisor, one of another user's, and a process that is none."""
    data = tmp_path / "data"
    (data / "run").mkdir(parents=True)
    (data / "lock").touch()
    (data / "run" / "supervisor.json").write_text(json.dumps({"pid": os.getpid(), "children": []}))
    proc = tmp_path / "proc"
    for pid, command, fd in (
        ("1", b"python\0-m\0controlplane.supervisor\x003\x004\0", data / "lock"),
        ("2", b"vi\0x\0", data / "lock"),
    ):
        (proc / pid / "fd").mkdir(parents=True)
        (proc / pid / "cmdline").write_bytes(command)
        (proc / pid / "fd" / "4").symlink_to(fd)
    (proc / "3").mkdir()
    return proc


def test_a_running_platform_is_found_by_the_lock_that_it_holds(proc: Path, tmp_path: Path) -> None:
    assert locate.running_data_paths(proc) == [tmp_path / "data"]


def test_it_is_looked_at_unless_another_one_was_named(proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    data_paths = locate.running_data_paths(proc)
    monkeypatch.setattr(locate, "running_data_paths", lambda: data_paths)
    chosen, findings = locate.choose(Settings())
    assert chosen.data_path == tmp_path / "data" and str(tmp_path / "data") in findings[0].says
    named = Settings(data_dir=str(tmp_path / "named"))
    assert locate.choose(named) == (named, [])


def test_of_several_one_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(locate, "running_data_paths", lambda: [tmp_path / "a", tmp_path / "b"])
    chosen, findings = locate.choose(Settings())
    assert chosen == Settings() and findings[0].do == "choose one with --data-dir"


def test_every_option_that_doctor_suggests_exists(repository: Path) -> None:
    """In the texts of the doctor and of the ports that it looks at."""
    options = {
        name: {option for parameter in command.params for option in parameter.opts} for name, command in main.commands.items()
    }
    folder = repository / "platform" / "controlplane"
    texts = [
        node.value
        for path in [*sorted((folder / "doctor").glob("*.py")), folder / "ports.py"]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    suggested = {option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    assert "--data-dir" in suggested and "--web-port" in suggested
    assert suggested <= options["doctor"] | options["standalone"]
