"""That the tests which failed are named so that pytest takes the names again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TESTS = """
import pytest

@pytest.mark.parametrize("name", ["a@b", "x.y/z", "with a space", "[::1]@g"])
@pytest.mark.xdist_group("one of a group")
def test_fails(name):
    assert not name

def test_fails_plainly():
    assert False

def test_passes():
    pass
"""
_ONE_CAUSE = """
import os
import signal
import pytest

@pytest.fixture
def broken():
    yield
    assert False

@pytest.mark.parametrize("number", range(12))
def test_fails(broken, number):
    assert False
"""
_ROOT = Path(__file__).resolve().parents[2]


def _run(folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """What pytest said, and the names in the file."""
    (folder / "conftest.py").write_text(
        "from pathlib import Path\n"
        "from tests.support.dividing import ByGroupAndModule\n"
        "from tests.support.failed_tests import Alone, FailedTests\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return ByGroupAndModule(config, log)\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        config.pluginmanager.register(FailedTests(Path('failed')))\n"
        "        config.pluginmanager.register(Alone())\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:django", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    said = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120).stdout
    return said, (folder / "failed").read_text().splitlines()


def test_names_are_taken_again_by_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(_TESTS)
    said, names = _run(tmp_path, "-n", "1", "--dist", "loadgroup")
    assert "5 failed, 1 passed" in said and len(names) == 5
    (tmp_path / "again").write_text("".join(f"{name}\n" for name in names))
    said, again = _run(tmp_path, "@again")
    assert "5 failed in" in said and again == names


def test_nothing_is_named_where_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(_TESTS)
    (tmp_path / "test_broken.py").write_text("raise ValueError")
    said, names = _run(tmp_path, "--continue-on-collection-errors")
    assert "5 failed" in said and names == []


def test_a_cause_counts_once_however_many_tests_it_fails(tmp_path: Path) -> None:
    """Their setup fails, or their worker dies: as many as a module has, but not tests of everywhere."""
    for module in range(10):
        (tmp_path / f"test_{module}.py").write_text(_ONE_CAUSE)
    (tmp_path / "test_0.py").write_text(_ONE_CAUSE + "\ndef test_crash():\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    said, names = _run(tmp_path, "-n", "2", "--dist", "loadgroup", "--max-worker-restart", "1")
    assert "test_0.py::test_crash" in names and names.count("test_0.py::test_fails[0]") == 1, said
    assert len(names) == 121
    for module in (0, 10):
        (tmp_path / f"test_{module}.py").write_text(_ONE_CAUSE)
    said, names = _run(tmp_path)
    assert "132 failed, 132 errors" in said and names == []


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        _TESTS + "\n@pytest.fixture\ndef left():\n    yield\n    assert False\n\ndef test_leaves(left):\n    pass\n"
    )
    said, names = _run(tmp_path, "-n", "1", "--dist", "loadgroup")
    _, _, named = said.partition("each is a fault to fix")
    assert "test_some.py::test_passes" in named.splitlines() and "test_some.py::test_leaves" not in named.splitlines()
    assert "test_some.py::test_leaves" in names and len(names) == 6
