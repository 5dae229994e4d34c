"""Waiting for a condition without sleeping for a fixed time: poll until it holds, and say what was seen if it never does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
# Machines of CI are at times several times slower than those that deadlines were chosen on. Only a test that fails waits that long.
_PATIENCE = 3


def _give_up(check: Callable[[], object], timeout_s: float, last: str) -> str:
    name = getattr(check, "__qualname__", repr(check))
    return f"{name} did not hold within {_PATIENCE * timeout_s:g} s; last seen: {last}"


@overload
async def eventually(check: Callable[[], Awaitable[T]], timeout_s: float = 10) -> T: ...
@overload
async def eventually(check: Callable[[], T], timeout_s: float = 10) -> T: ...
async def eventually(check: Callable[[], object], timeout_s: float = 10) -> object:
    """What `check` returns as soon as that is true; `check` may be a coroutine function.

    An `AssertionError` of `check` counts as "not yet", so that it may hold several asserts. After `timeout_s` (of a quiet
    machine): `AssertionError`.
    """
    deadline = time.monotonic() + _PATIENCE * timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            result = check()
            value = await result if inspect.isawaitable(result) else result
            if value:
                return value
            seen = repr(value)
        except AssertionError as error:
            seen = str(error) or "an assertion without a message"
        if time.monotonic() > deadline:
            raise AssertionError(_give_up(check, timeout_s, seen))
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def eventually_sync(check: Callable[[], T], timeout_s: float = 10) -> T:
    """`eventually` for tests without a loop."""
    deadline = time.monotonic() + _PATIENCE * timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            value = check()
            if value:
                return value
            seen = repr(value)
        except AssertionError as error:
            seen = str(error) or "an assertion without a message"
        if time.monotonic() > deadline:
            raise AssertionError(_give_up(check, timeout_s, seen))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
