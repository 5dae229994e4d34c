"""Log lines of the supervisor and its children, in the format of `messaging/logs.py` but without a logging library.

Children write JSON lines (or console lines) themselves. Their lines are copied unchanged to DATA_DIR/logs/<name>.log, and to the
supervisor's stderr with the child's name. A stderr that nobody reads must not stop the platform: lines that would block are dropped
from stderr, but not from the file.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LOG_BYTES_MAX = 16 << 20  # then the file is renamed to <name>.log.1, replacing the previous one
_PIPE_BYTES = 4096  # what a writable pipe accepts without blocking


_OURS = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[")


def timestamp(now_s: float | None = None) -> str:
    """UTC with milliseconds, as in every log line and in supervisor.json."""
    now_s = time.time() if now_s is None else now_s
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s)) + f".{int(now_s % 1 * 1000):03d}Z"


def _copy(line: bytes, descriptor: int = 2) -> None:
    """Writes to stderr or another descriptor, unless that would block."""
    for start in range(0, len(line), _PIPE_BYTES):
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        if not poll.poll(0):
            return
        try:
            os.write(descriptor, line[start : start + _PIPE_BYTES])
        except OSError:
            return


def notice(log_format: str, level: str, event: str, **fields: object) -> None:
    """One log line of the supervisor."""
    if log_format == "json":
        line = json.dumps({"timestamp": timestamp(), "level": level, "event": event, "process": "supervisor", **fields})
    else:
        pairs = " ".join(f"{key}={value}" for key, value in fields.items())
        line = f"{timestamp()} [{level}] supervisor: {event} {pairs}".rstrip()
    _copy(line.encode() + b"\n")


def print_error(message: str) -> None:
    """The one line that explains why the platform does not start."""
    _copy(f"magnetar: {message}\n".encode())


def print_line(text: str) -> None:
    """Writes to stdout, and ignores a full disk."""
    _copy(text.encode(), 1)


class ChildLog:
    """Receives a child's output in chunks of any size; `last` holds its newest lines for the error message if it fails.

    If the file cannot be written (the disk is full), the output is lost and counted in `lost_bytes`, and `on_trouble` is called
    when
    this begins and ends."""

    def __init__(self, folder: Path, name: str, log_format: str, quiet: bool = False) -> None:
        self.last: list[str] = []
        self.lost_bytes = 0  # since the file was last written
        self.on_trouble: Callable[[str], None] = lambda what: None
        self._name = name
        self._json = log_format == "json"
        self._quiet = quiet
        self._path = folder / f"{name}.log"
        self._file: BinaryIO | None = None
        self._rest = b""
        with suppress(OSError):  # otherwise opened with the first output
            self._file = self._path.open("ab", buffering=0)

    def feed(self, data: bytes) -> None:
        try:
            self._write(data)
        except OSError as error:
            if not self.lost_bytes:
                self.on_trouble(f"{self._path} cannot be written: {error.strerror}")
            self.lost_bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)

    def close(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
        assert self._file is not None
        if self.lost_bytes:
            note = f"... {self.lost_bytes} bytes of output were lost because this file could not be written ...\n"
            self._file.write(note.encode())
            self.on_trouble(f"{self._path} can be written again; {self.lost_bytes} bytes of output were lost")
            self.lost_bytes = 0
        self.lost_bytes = len(data) - self._file.write(data)  # a full disk may accept only part of it
        if self._file.tell() > LOG_BYTES_MAX:
            self._rotate()

    def _line(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if not text:
            return
        self.last = [*self.last[-19:], text]
        if self._quiet:
            return
        if not self._json:
            # Log lines of our own processes already contain their name.
            _copy((text if _OURS.match(text) else f"{self._name} | {text}").encode() + b"\n")
        elif text.startswith("{"):
            _copy(text.encode() + b"\n")
        else:
            _copy(
                json.dumps(
                    {"timestamp": timestamp(), "level": "info", "event": "output", "process": self._name, "line": text}
                ).encode()
                + b"\n"
            )

    def _rotate(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None  # opened again with the next output
        self._path.replace(self._path.with_name(f"{self._name}.log.1"))
