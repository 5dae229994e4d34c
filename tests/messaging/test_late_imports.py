"""Modules that are imported when they are first needed, by several threads at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from messaging.late_imports import imported

WAIT_S = 0.2  # in vain, where only one imports at a time


def test_one_thread_imports_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or both see unfinished modules where those import each other: a worker whose threads began two tasks at once failed them."""
    meeting: Any = SimpleNamespace(first=threading.Event(), second=threading.Event(), wait_s=WAIT_S)
    monkeypatch.setitem(sys.modules, "late_meeting", meeting)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_first.py").write_text(
        "import late_meeting\nlate_meeting.first.set()\ntogether = late_meeting.second.wait(late_meeting.wait_s)\n"
    )
    (tmp_path / "late_second.py").write_text("import late_meeting\nlate_meeting.second.set()\n")
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(imported("late_first:together")), daemon=True)]
    threads[0].start()
    assert meeting.first.wait(30)
    threads.append(threading.Thread(target=lambda: imported("late_second:late_meeting"), daemon=True))
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert found == [False] and meeting.second.is_set()
