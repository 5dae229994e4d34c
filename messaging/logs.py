"""Structured logs: one line per event, a stable event name and fields, the same for our own code and for every library's `logging`.

    {"timestamp": "2026-01-31T12:00:00.000Z", "level": "info", "event": "topic-loaded", "process": "broker", "logger": ..., fields}

`setup` once, first thing in a process; then ``log = logs.get_logger(__name__)`` and ``log.info("topic-loaded", topic=name)``: the
event is an exact noun and verb that never changes, everything that varies is a field. No secret gets out, and no line is long,
whatever a peer sent: see `redaction.py`.
"""

from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Mapping, MutableMapping
from time import monotonic
from typing import Any, Protocol, TextIO

import msgspec

from messaging.lean_imports import without
from messaging.log_rate_limit import LogRateLimit
from messaging.redaction import loggable, redact_text
from messaging.settings import Settings

# structlog formats tracebacks with rich where that is installed (it comes with development tools). We do not, and not importing it
# saves a process 0.15 s and 10 MiB. A process imports this module before others that use structlog.
with without("rich"):
    import structlog

EVENT_CHARS_MAX = 80  # by which lines count as of one event
LINE_CHARS_MAX = 64 << 10  # fields that would make a line longer are left out, and it says so
Event = MutableMapping[str, Any]


def _encode(value: Any) -> str:
    """`value` is plain data: `loggable` made it."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):
        return msgspec.json.encode(repr(value).encode("utf-8", "replace").decode()).decode()


def _json(fields: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{_encode(str(key))}:{_encode(value)}" for key, value in fields.items()) + "}"


def _console(fields: Mapping[str, Any]) -> str:
    rest = dict(fields)
    head = f"{rest.pop('timestamp')} [{rest.pop('level')}] {rest.pop('process')}: {rest.pop('event')}"
    trace = rest.pop("exception", None)
    rest.pop("logger", None)
    pairs = "".join(f" {key}={value if isinstance(value, str) else _encode(value)}" for key, value in rest.items())
    return head + pairs + (f"\n{trace}" if trace else "")


class Named(Protocol):
    name: str


class _Sink:
    """What bound loggers end in: writes the finished line, and never fails because nobody reads it."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self.name = name
        self._stream = stream

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone, or the stream was closed at exit: there is nobody left to tell

    debug = info = warning = warn = error = critical = fatal = exception = msg = log = failure = err = _write


_OURS = {"messaging", "controlplane", "tenants", "admin_ui", "workers"}  # what libraries add may be whole requests
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "event", "level"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}


class Routed(logging.Handler):
    """Brings the records of `logging` into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # a library's own mistake in its arguments must not become ours
            message = str(record.msg)
        extra = _fields(record) if record.name.partition(".")[0] in _OURS else {}
        if record.exc_info:
            extra["exc_info"] = record.exc_info
        level = min(50, max(10, record.levelno // 10 * 10))
        structlog.get_logger(record.name).log(level, message, **extra)


def _timestamp() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def setup(process: str, settings: Settings, stream: TextIO | None = None) -> None:
    """Sends every log line of this process to `stream` (stderr), from `settings.log_level` on. May be called again."""
    target = sys.stderr if stream is None else stream
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not target.isatty())
    render = _json if as_json else _console

    rates = LogRateLimit()

    def thin(logger: Named, method: str, event: Event) -> Event:
        if method != "critical":
            suppressed = rates.suppressed(str(event.get("event", ""))[:EVENT_CHARS_MAX], monotonic())
            if suppressed is None:
                raise structlog.DropEvent
            if suppressed:
                event["lines_left_out"] = suppressed
        return event

    def finish(logger: Named, method: str, event: Event) -> str:
        fields = {
            "timestamp": _timestamp(),
            "level": event.pop("level", method),
            "event": redact_text(str(event.pop("event", ""))),
            "process": process,
        }
        if getattr(logger, "name", ""):
            fields["logger"] = redact_text(logger.name)
        left = LINE_CHARS_MAX
        for key, value in event.items():
            shown = loggable(value, key)
            left -= len(shown) if isinstance(shown, str) else len(_encode(shown))
            if left < 0:
                fields["left_out"] = "further fields: the line would be too long"
                break
            fields[redact_text(key)] = shown
        return render(fields)

    level = getattr(logging, settings.log_level.upper())
    structlog.configure(
        processors=[
            thin,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            finish,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *arguments: _Sink(target, str(arguments[0]) if arguments else ""),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [Routed()]
    root.setLevel(level)
    logging.captureWarnings(True)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, least))


# Libraries whose "info" is of no use to somebody who runs the platform.
_QUIET = {
    "asyncio": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "uvicorn.error": logging.WARNING,
    "websockets": logging.WARNING,
    "py4j": logging.WARNING,
}

get_logger = structlog.get_logger
