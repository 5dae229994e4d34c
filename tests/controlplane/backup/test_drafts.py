"""What a backup that was killed leaves goes with the next one; what another process is writing stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.backup.drafts import UNFINISHED, new_draft, remove_abandoned

KILLED = """
import os, signal, sys
from pathlib import Path
from controlplane.backup.drafts import new_draft
with new_draft(Path(sys.argv[1]), "killed") as draft:
    (draft.folder / "large").write_bytes(b"1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_remains_of_one_that_was_killed_are_removed(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-P", "-c", KILLED, str(tmp_path)], check=False).returncode == -9
    assert (tmp_path / f"{UNFINISHED}killed" / "large").exists()
    for stranger in (tmp_path / f"{UNFINISHED}of-somebody-else", tmp_path / "magnetar-20260101T000000Z"):
        stranger.mkdir()
    with new_draft(tmp_path, "running") as draft:
        assert remove_abandoned(tmp_path) == [tmp_path / f"{UNFINISHED}killed"]
        draft.become(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "magnetar-20260101T000000Z",
        f"{UNFINISHED}of-somebody-else",
        "whole",
    ]
    assert list((tmp_path / "whole").iterdir()) == []


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk"), new_draft(tmp_path, "1") as draft:
        (draft.folder / "part").write_bytes(b"1")
        raise OSError("no disk")
    assert list(tmp_path.iterdir()) == []
