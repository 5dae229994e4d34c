"""A timer of the event loop with a resolution of microseconds: that of the loop itself is a millisecond.

Linux's timerfd, called through `ctypes`, because Python has a binding only since 3.13.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable

_CLOCK_MONOTONIC = 1


class _Times(ctypes.Structure):
    """struct itimerspec: interval and value, each in seconds and nanoseconds."""

    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


class LoopTimer:
    """Calls `act` on the loop once for each `start`; a second `start` before that moves it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        """Raises `OSError` if the system has no such timer."""
        # Called without releasing the GIL: the calls take a microsecond, and getting the GIL back may take longer.
        system = ctypes.PyDLL(None, use_errno=True)
        if not hasattr(system, "timerfd_settime"):
            raise OSError(errno.ENOSYS, "the system has no such timers")
        self._set = system.timerfd_settime
        self._descriptor = _checked(system.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        self._times = _Times()
        self._address = ctypes.byref(self._times)
        self._act = act
        self._loop = loop
        loop.add_reader(self._descriptor, self._expired)

    def start(self, seconds: float) -> None:
        self._times.value_s, self._times.value_ns = divmod(max(1, int(seconds * 1e9)), 1_000_000_000)
        _checked(self._set(self._descriptor, 0, self._address, None))

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _expired(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return  # it was moved
        self._act()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
