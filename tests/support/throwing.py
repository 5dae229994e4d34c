"""Exceptions where nobody expects them: at the N-th call of a function of the broker's core."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

import messaging.broker.core as core

CORE = next(iter(core.__path__))
NEVER = 1 << 62


class Thrown(Exception):
    """By a `Thrower`."""


class Thrower:
    """While it is entered, it raises instead of call `number` of a function of the core, counted from 0."""

    def __init__(self, number: int) -> None:
        self.number = self._left = number
        self._paused = False

    def __enter__(self) -> Thrower:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(CORE) and not code.co_flags & CO_GENERATOR:  # these are also closed
            self.call(code.co_qualname)

    def call(self, name: str) -> None:
        """Also of something else."""
        if self._paused:
            return
        self._left -= 1
        if self._left < 0:
            self._paused = True
            raise Thrown(f"instead of {name}")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing raises."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before
