"""Counts steps of our code: lines that run, also each round of a loop in one line. Time is never measured.

What one call of a function written in C does is one step, however long it takes: operations on bitmaps, copies and sorts are far
cheaper for each entry than a line of Python."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import messaging

OURS = str(Path(messaging.__file__).parent)


class Steps:
    """While it is entered, `count` follows; `places` has how many steps each function took."""

    def __init__(self) -> None:
        self.count = 0
        self.places: dict[str, int] = {}

    def __enter__(self) -> Steps:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(OURS) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.count += 1
        name = frame.f_code.co_qualname
        self.places[name] = self.places.get(name, 0) + 1
        return self._line

    @property
    def most(self) -> str:
        """Where most steps were, for a message."""
        places = sorted(self.places.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{name}: {count:,}" for name, count in places)
