"""Structured logs: one line an event, a stable event name and fields, the same for our own code and for every library's `logging`.

    {"timestamp": "2026-01-31T12:00:00.000Z", "level": "info", "event": "topic-loaded", "process": "broker", "logger": ..., fields}

`setup` once, first thing in a process; then ``log = logs.get_logger(__name__)`` and ``log.info("topic-loaded", topic=name)``: the
event is an exact noun and verb that never changes, everything that varies is a field. No secret gets out: fields that are named
like one are replaced, and whatever looks like a token, a private key or a password in a URL is, wherever it stands in the line.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol, TextIO

import msgspec

from messaging.settings import Settings

# structlog formats tracebacks with rich where that is installed (it comes with development tools). We do not, and not importing it
# saves a process 0.15 s and 10 MiB.
_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    if _rich is None:
        del sys.modules["rich"]
    else:
        sys.modules["rich"] = _rich

REDACTED = "[redacted]"
_SECRET_WORDS = frozenset(
    {
        *("token", "tokens", "password", "passwords", "passphrase", "secret", "secrets", "authorization", "bearer", "jwt", "pem"),
        *("cookie", "cookies", "credential", "credentials"),
    }
)
_SECRET_PAIRS = (("private", "key"), ("signing", "key"), ("api", "key"), ("auth", "data"))
# As the last word: token_file, key_id, token_expires_ms say something about a secret and are none.
_NOT_THE_SECRET = frozenset(
    {"file", "files", "path", "id", "ids", "count", "name", "type", "kind", "s", "ms", "expires", "expired", "bytes"}
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_IN_TEXT = re.compile(
    r"(?P<jwt>\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)"
    r"|(?P<pem>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))"
    r"|(?<=://)(?P<user>[^\s/:@\"']*):(?P<password>[^\s/@\"']+)(?=@)"
    r"|(?P<scheme>\b(?:Bearer|Basic)\s+)(?P<credential>[\w.~+/=-]{8,})",
    re.DOTALL | re.IGNORECASE,
)
Event = MutableMapping[str, Any]


def secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: ``password``, ``adminToken``, ``private_key``; not ``token_file``."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _NOT_THE_SECRET:
        return False
    return any(word in _SECRET_WORDS for word in words) or any(pair in itertools.pairwise(words) for pair in _SECRET_PAIRS)


def _replacement(match: re.Match[str]) -> str:
    if match["user"] is not None:
        return f"{match['user']}:{REDACTED}"
    return (match["scheme"] or "") + REDACTED


def redact_text(text: str) -> str:
    """`text` without tokens, private keys and passwords in URLs."""
    return _IN_TEXT.sub(_replacement, text)


def redact(value: Any, name: str = "") -> Any:
    """`value` without what stands under a secret's name, in nested mappings and sequences too. Text is `redact_text`'s work."""
    if name and secret_name(name) and value is not None and not isinstance(value, bool):
        return REDACTED
    if isinstance(value, Mapping):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        # Header pairs, as ASGI has them: [(b"authorization", b"..."), ...]
        if len(items) == 2 and isinstance(items[0], str | bytes) and isinstance(items[1], str | bytes):
            key = items[0].decode("latin-1") if isinstance(items[0], bytes) else items[0]
            return [items[0], redact(items[1], key)]
        return [redact(item) for item in items]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", errors="replace")
    return str(value)


def _encode(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        value = _plain(value)
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
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


class Routed(logging.Handler):
    """Brings the records of `logging` into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # a library's own mistake in its arguments must not become ours
            message = str(record.msg)
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        level = min(50, max(10, record.levelno // 10 * 10))
        structlog.get_logger(record.name).log(level, message, **extra)


def _timestamp() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def setup(process: str, settings: Settings, stream: TextIO | None = None) -> None:
    """Sends every log line of this process to `stream` (stderr), from `settings.log_level` on. May be called again."""
    target = sys.stderr if stream is None else stream
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not target.isatty())
    render = _json if as_json else _console

    def finish(logger: Named, method: str, event: Event) -> str:
        fields = {
            "timestamp": _timestamp(),
            "level": event.pop("level", method),
            "event": str(event.pop("event", "")),
            "process": process,
        }
        if getattr(logger, "name", ""):
            fields["logger"] = logger.name
        return redact_text(render({**fields, **{key: redact(value, key) for key, value in event.items()}}))

    level = getattr(logging, settings.log_level.upper())
    structlog.configure(
        processors=[
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
_QUIET = {"asyncio": logging.WARNING, "uvicorn.access": logging.WARNING, "websockets": logging.WARNING, "py4j": logging.WARNING}

get_logger = structlog.get_logger
