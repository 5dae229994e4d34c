"""The image: its health check, and what is copied into it. `make image` builds it and tries it with a stock client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

NOBODY = 1 << 22  # no process has this id


class Answering(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(b"not ready: the database is away")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[str]:
    Answering.status = 200
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def checked(repository: Path, data: Path, **files: Any) -> tuple[int, str]:
    """The exit code of the health check, and what it says, beside these files of run/."""
    (data / "run").mkdir(exist_ok=True)
    for name, value in files.items():
        (data / "run" / f"{name}.json").write_text(json.dumps(value))
    command = [sys.executable, "-I", str(repository / "deploy" / "image" / "healthcheck.py")]
    done = subprocess.run(command, env={"MAGNETAR_DATA_DIR": str(data)}, capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


def test_a_process_that_answers_is_healthy(repository: Path, tmp_path: Path, answering: str) -> None:
    web = {"web_url": f"http://{answering}", "pid": os.getpid()}
    assert checked(repository, tmp_path, web=web) == (0, "")
    assert checked(repository, tmp_path, broker={"ws_url": f"ws://{answering}", "pid": os.getpid()}) == (0, "")
    assert checked(repository, tmp_path, worker={"pid": os.getpid()}) == (0, "")


def test_one_that_is_not_ready_says_why(repository: Path, tmp_path: Path, answering: str) -> None:
    Answering.status = 503
    web = {"web_url": f"http://{answering}", "pid": os.getpid()}
    assert checked(repository, tmp_path, web=web) == (1, "web: not ready: the database is away")


def test_one_that_does_not_answer_is_not_healthy(repository: Path, tmp_path: Path) -> None:
    code, says = checked(repository, tmp_path, web={"web_url": "http://127.0.0.1:1", "pid": os.getpid()})
    assert code == 1 and says.startswith("web does not answer: ")


def test_what_an_earlier_process_left_does_not_count(repository: Path, tmp_path: Path) -> None:
    assert checked(repository, tmp_path)[0] == 1
    code, says = checked(repository, tmp_path, worker={"pid": NOBODY})
    assert code == 1 and says == f"no process has written to {tmp_path}/run yet"


def test_a_child_that_the_supervisor_starts_again_is_named(repository: Path, tmp_path: Path) -> None:
    children = [{"name": "prepare", "state": "done"}, {"name": "broker", "state": "starting"}]
    code, says = checked(repository, tmp_path, supervisor={"children": children}, worker={"pid": os.getpid()})
    assert code == 1 and says == "broker is not ready"


def test_what_is_copied_into_it_is_in_the_context(repository: Path) -> None:
    text = (repository / "deploy" / "image" / "Containerfile").read_text()
    allowed = {line[1:] for line in (repository / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()}
    assert copied == allowed
    assert (repository / "deploy" / "image" / "healthcheck.py").stat().st_mode & 0o111


def test_it_runs_as_nobody_in_particular(repository: Path) -> None:
    text = (repository / "deploy" / "image" / "Containerfile").read_text()
    final = text.rpartition("\nFROM ")[2]
    assert "\nUSER 6650:6650\n" in final and "\nVOLUME /var/lib/magnetar\n" in final and 'CMD ["healthcheck"]' in final
