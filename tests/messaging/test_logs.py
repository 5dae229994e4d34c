"""Log lines: one shape for our events and for libraries' records, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
import structlog

from messaging import logs
from messaging.identity import issue_token, read_secret
from messaging.log_rate_limit import BURST
from messaging.redaction import REDACTED
from messaging.settings import Settings, load

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    """Sets logs up as a process would, and takes it back afterwards."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    stream = io.StringIO()
    logs.setup("broker", Settings(data_dir=str(tmp_path), log_level="debug", log_format="json"), stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def test_an_event_has_its_name_and_its_fields(lines: Lines) -> None:
    logs.get_logger("broker.topic").info("topic-loaded", topic="persistent://a/b/c", entries=3, position=(1, 2))
    (line,) = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "event": "topic-loaded",
        "process": "broker",
        "logger": "broker.topic",
        "topic": "persistent://a/b/c",
        "entries": 3,
        "position": [1, 2],
    }


def test_the_records_of_libraries_become_the_same_lines(lines: Lines) -> None:
    logging.getLogger("celery.worker").warning("lost %s of %d", "connection", 3)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("library").exception("failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", UserWarning, stacklevel=1)
    celery, failed, warned = lines()
    assert (celery["event"], celery["logger"], celery["level"], celery["process"]) == (
        "lost connection of 3",
        "celery.worker",
        "warning",
        "broker",
    )
    assert "ValueError: broken" in failed["exception"] and failed["level"] == "error"
    assert "old thing" in warned["event"]


def test_what_our_own_records_say_beside_their_message_is_kept(lines: Lines) -> None:
    """Seen: "request failed", and neither which nor why."""
    logging.getLogger("messaging.broker.http").warning("request failed", extra={"path": "/rpc", "code": "not_ready"})
    logging.getLogger("library").warning("request failed", extra={"request": "with all its headers"})
    ours, theirs = lines()
    assert (ours["path"], ours["code"]) == ("/rpc", "not_ready")
    assert "request" not in theirs


def test_a_librarys_broken_record_is_still_a_line(lines: Lines) -> None:
    # Straight to our handler: pytest's own, which hears the root logger too, makes an error of it.
    logs.Routed().emit(logging.LogRecord("library", logging.WARNING, __file__, 1, "%d items", ("many",), None))
    assert lines()[0]["event"] == "%d items"


def test_values_that_are_no_json_are_written_as_text(lines: Lines) -> None:
    logs.get_logger("x").info(
        "strange", path=Path("/p"), data=b"\xff\x00", number=2**70, nested={"a": {1, 2}}, error=ValueError("why")
    )
    (line,) = lines()
    assert line["path"] == "/p" and line["error"] == "why" and line["nested"] == {"a": [1, 2]}


def test_no_secret_reaches_the_log(lines: Lines) -> None:
    """Everything a careless programmer might log, then a search for the secrets in what came out."""
    settings = load()
    token = issue_token(settings, "admin", "key-1", now_s=1_700_000_000)
    hs256 = jwt.encode({"sub": "somebody"}, "k" * 32, algorithm="HS256")
    pem = read_secret(settings, "token-signing.pem")
    password = read_secret(settings, "console-password")
    log = logs.get_logger("careless")
    log.info("connected", token=token, headers={"Authorization": f"Bearer {hs256}", "accept": "*/*"})
    log.info("connected", scope_headers=[(b"authorization", f"Bearer {token}".encode()), (b"cookie", b"session=abcdefgh")])
    log.info(f"the token is {token}!", note=f"token:{hs256}")
    log.info("key-read", data=pem, raw=pem.encode())
    log.info("signed-in", form={"username": "admin", "password": password}, adminPassword=password)
    log.info("database", url="postgresql://magnetar:hunter22@db:5432/x", basic="Authorization: Basic YWRtaW46aHVudGVyMjI=")
    logging.getLogger("library").info("GET /?access_token=%s", token)
    try:
        raise RuntimeError(f"bad token {token}")
    except RuntimeError:
        log.exception("failed")
    text = json.dumps(lines())
    secrets = {
        "tenant token": token,
        "foreign token": hs256,
        "password": password,
        "url": "hunter22",
        "basic": "YWRtaW46",
        "cookie": "abcdefgh",
    }
    secrets["private key"] = pem.splitlines()[1]
    assert {name for name, secret in secrets.items() if secret in text} == set()
    assert text.count(REDACTED) >= 12
    assert "RuntimeError: bad token [redacted]" in text, "what is no secret stays"


def test_a_line_is_never_long(lines: Lines) -> None:
    """A client named itself with 62 KB: the log kept them all, and froze the loop for 4.4 s looking for secrets in them."""
    logs.get_logger("x").info("refused " + "y" * 100_000, client="v" * 62_000, fields={"k" * 5000: ["w" * 5000] * 1000})
    logs.get_logger("x").info("many", **{f"field_{number}": "z" * 5000 for number in range(100)})
    first, second = lines()
    assert len(json.dumps(first)) < 8_000 and first["client"].endswith("... (62000 characters)")
    assert len(json.dumps(second)) < logs.LINE_CHARS_MAX + 4_000 and "left_out" in second


def test_the_level_is_kept(tmp_path: Path, lines: Lines) -> None:
    stream = io.StringIO()
    logs.setup("web", Settings(data_dir=str(tmp_path), log_level="warning", log_format="console"), stream)
    structlog.get_logger("quiet").info("unheard")
    logging.getLogger("quiet").info("unheard")
    structlog.get_logger("loud").warning("heard", what="this")
    assert "unheard" not in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("[warning] web: heard what=this")


def test_a_reader_that_went_away_does_not_stop_the_writer(tmp_path: Path, lines: Lines) -> None:
    stream = io.StringIO()
    logs.setup("web", Settings(data_dir=str(tmp_path)), stream)
    stream.close()
    structlog.get_logger("lonely").info("nobody-listens")


def test_setting_up_is_cheap() -> None:
    """No rich, no pygments: they would cost each process 0.15 s and 10 MiB."""
    script = "import sys, messaging.logs; print([name for name in ('rich', 'pygments', 'django') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_flood_of_one_event_leaves_room_for_others(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.get_logger("flood")
    monkeypatch.setattr(logs, "monotonic", lambda: 5.0)
    for number in range(10 * BURST):
        log.info("connection.refused", peer=f"127.0.0.1:{number}")
        log.critical("cursor.damaged")
    log.info("broker.ready")
    monkeypatch.setattr(logs, "monotonic", lambda: 6.0)
    log.info("connection.refused", peer="last")
    logged = lines()
    assert sum(line["event"] == "connection.refused" for line in logged) == BURST + 1
    assert sum(line["event"] == "cursor.damaged" for line in logged) == 10 * BURST
    assert logged[-2]["event"] == "broker.ready"
    assert logged[-1]["lines_left_out"] == 9 * BURST


LEVELS = ("debug", "info", "warning", "error")


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_leaves_out_what_is_below_it(tmp_path: Path, lines: Lines, level: str) -> None:
    """`lines` takes the setup back afterwards."""
    assert lines() == []
    stream = io.StringIO()
    logs.setup("broker", msgspec.convert({"data_dir": str(tmp_path), "log_level": level, "log_format": "json"}, Settings), stream)
    log = structlog.get_logger("levels")
    for each_level in LEVELS:
        getattr(log, each_level)(f"said.{each_level}")
    said = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert said == [f"said.{each_level}" for each_level in LEVELS[LEVELS.index(level) :]]


@pytest.mark.parametrize(("log_format", "is_json"), [("json", True), ("console", False), ("auto", True)])
def test_each_format(tmp_path: Path, lines: Lines, log_format: str, is_json: bool) -> None:
    """What is not a terminal gets JSON."""
    assert lines() == []
    stream = io.StringIO()
    logs.setup("broker", msgspec.convert({"data_dir": str(tmp_path), "log_format": log_format}, Settings), stream)
    structlog.get_logger("formats").warning("said")
    assert stream.getvalue().startswith("{") is is_json
    assert "said" in stream.getvalue()
