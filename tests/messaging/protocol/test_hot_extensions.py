"""Compiled extension modules of the hot loops run beside the sources that they were compiled from, and beside no others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from messaging.protocol import hot_extensions

PROTOCOL = hot_extensions.PACKAGE.parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package of the loops in another place, with its extension modules, if any. Returns the folder of its sources."""
    protocol = tmp_path / "messaging" / "protocol"
    shutil.copytree(hot_extensions.PACKAGE, protocol / "hot", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROTOCOL / "hot_extensions.py", protocol)
    shutil.copy(PROTOCOL.parent / "lean_imports.py", protocol.parent)
    for package in (protocol.parent, protocol):
        (package / "__init__.py").touch()
    return protocol / "hot"


def compiled(copy: Path) -> bool:
    asked = "from messaging.protocol import hot; print(hot.COMPILED, hot.incoming.__file__)"
    root = copy.parent.parent.parent
    said = subprocess.run([sys.executable, "-c", asked], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert Path(said[1]).is_relative_to(copy)
    return said[0] == "True"


def test_a_source_that_changed_runs_as_plain_python(copy: Path) -> None:
    assert compiled(copy) == hot_extensions.built()
    source = copy / "incoming.py"
    source.write_text(source.read_text() + "\nADDED = 1\n")
    assert not compiled(copy)


@pytest.mark.parametrize("name", ["common.py", "incoming.pxd", "outgoing.py"])
def test_every_source_counts(copy: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(hot_extensions, "SOURCES", tuple(copy / source.name for source in hot_extensions.SOURCES))
    before = hot_extensions.folder().name
    (copy / name).write_text((copy / name).read_text() + "\n# changed\n")
    assert hot_extensions.folder().name != before
