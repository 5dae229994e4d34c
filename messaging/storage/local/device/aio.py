"""Asynchronous reads and writes with Linux's native AIO (`io_submit`), completed on the event loop.

A direct write into allocated pages needs no thread to wait for it: the device's interrupt completes it, and an eventfd wakes the
loop. Called through `ctypes`, because Python has no binding. Where the system lacks AIO, threads wait instead.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable

# io_setup, io_destroy, io_getevents, io_submit: Linux numbers its calls for each architecture.
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_EVENTS_MAX = 32

# struct iocb and struct io_event of <linux/aio_abi.h>, little-endian.
_PREAD, _PWRITE, _REPORT_TO_EVENTFD = 0, 1, 1
_REQUEST = struct.Struct("<QIiHhIQQqQII")  # id, key, flags, opcode, priority, fd, address, size, offset, reserved, flags, eventfd
_EVENT = struct.Struct("<QQqq")  # number, request, result, -

Done = Callable[[OSError | None], None]


class AioContext:
    """An AIO context for one event loop; use it from that loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises `OSError` if the system lacks AIO, denies it, or has no requests left (fs.aio-max-nr)."""
        self._queue = _Queue()
        self._loop = loop
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waiting: dict[int, tuple[int, Done]] = {}
        self._last = 0
        loop.add_reader(self._eventfd, self._ended)

    def read(self, descriptor: int, address: int, size: int, offset: int, done: Done) -> None:
        """Starts reading `size` bytes into the memory at `address`, which must stay valid until `done` is called. See `write`."""
        self._submit(_PREAD, 0, descriptor, address, size, offset, done)

    def write(self, descriptor: int, address: int, size: int, offset: int, done: Done) -> None:
        """Starts a durable write of `size` bytes from the memory at `address`. `done` is called on the loop with the error, if any.
        The memory must stay valid and unchanged until then. Raises `OSError` if nothing was started."""
        self._submit(_PWRITE, os.RWF_DSYNC, descriptor, address, size, offset, done)

    def _submit(self, what: int, how: int, descriptor: int, address: int, size: int, offset: int, done: Done) -> None:
        number = self._last = self._last + 1
        self._queue.submit(number, 0, how, what, 0, descriptor, address, size, offset, 0, _REPORT_TO_EVENTFD, self._eventfd)
        self._waiting[number] = (size, done)

    def close(self) -> None:
        """Waits for requests in progress and reports them as failed. Blocks."""
        self._loop.remove_reader(self._eventfd)
        self._queue.close()
        os.close(self._eventfd)
        for _, done in self._waiting.values():
            self._tell(done, -errno.ECANCELED, 0)

    def _ended(self) -> None:
        try:
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            return  # a spurious wake-up
        for number, result in self._queue.ended():
            size, done = self._waiting.pop(number)
            self._tell(done, result, size)

    def _tell(self, done: Done, result: int, size: int) -> None:
        try:
            done(_error_of(result, size))
        except Exception as error:  # a bug in one callback: the other completions are still delivered
            self._loop.call_exception_handler({"message": "what waited for the disk raised", "exception": error})


def _error_of(result: int, size: int) -> OSError | None:
    if result == size:
        return None
    if result < 0:
        return OSError(-result, os.strerror(-result))
    return OSError(errno.EIO, f"only {result} of {size} bytes were read or written past the page cache")


def aio_available() -> bool:
    """Whether the system has native AIO and permits its use."""
    try:
        _Queue().close()
    except OSError:
        return False
    return True


class _Queue:
    """The kernel's queue: submits requests and collects completions."""

    def __init__(self) -> None:
        numbers = _CALLS.get(platform.machine()) if hasattr(os, "eventfd") else None
        if numbers is None:
            raise OSError(errno.ENOSYS, "asynchronous writes are not known of this system")
        setup, self._destroy, self._get_events, self._submit = numbers
        # Called without releasing the GIL: the calls take microseconds and never wait, and getting the GIL back may take longer.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_EVENT.size * _EVENTS_MAX)
        self._at_once = (ctypes.c_long * 2)(0, 0)  # seconds, nanoseconds
        self._checked(self._call(setup, _EVENTS_MAX, ctypes.byref(self._context)))

    def submit(self, *request: int) -> None:
        _REQUEST.pack_into(self._request, 0, *request)
        self._checked(self._call(self._submit, self._context, 1, self._requests))

    def ended(self) -> list[tuple[int, int]]:
        """All completions: (request number, bytes transferred or a negative errno)."""
        completions: list[tuple[int, int]] = []
        count = _EVENTS_MAX
        while count == _EVENTS_MAX:  # one call may not return all: the kernel may allow more requests than were asked for
            count = self._checked(self._call(self._get_events, self._context, 0, _EVENTS_MAX, self._events, self._at_once))
            completions += [
                (number, result) for number, _, result, _ in _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size])
            ]
        return completions

    def close(self) -> None:
        self._call(self._destroy, self._context)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
