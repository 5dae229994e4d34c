"""A platform's /api/v1 for tests of its clients: it answers what it is told to, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, NamedTuple

PREFIX = "/api/v1/"


class Asked(NamedTuple):
    method: str
    path: str  # below /api/v1/, with its query
    body: Any
    headers: dict[str, str]


class FakeApi:
    """`answers`: (method, path) to a list of (status, JSON); the last one is given again and again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.asked: list[Asked] = []

    def answer(self, method: str, path: str, *answers: tuple[int, Any]) -> None:
        self.answers[(method, path)] = list(answers)

    def of(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        answers = self.answers.get((asked.method, asked.path))
        if not answers:
            return 404, problem(404, "not_found", f"nothing is at {asked.path}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def problem(status: int, code: str, detail: str) -> dict[str, Any]:
    return {"type": "", "title": "", "status": status, "detail": detail, "code": code, "request_id": "r1"}


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            asked = Asked(
                self.command, self.path.removeprefix(PREFIX), json.loads(body) if body else None, dict(self.headers.items())
            )
            status, content = api.of(asked)
            data = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    api = FakeApi(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
