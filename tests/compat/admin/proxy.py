"""An HTTP proxy before a platform, which writes down what passes."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.waiting import eventually_sync

_NOT_PASSED = {"connection", "transfer-encoding", "host", "content-length", "accept-encoding", "keep-alive"}
_PATIENCE_S = 20.0


class Exchange(NamedTuple):
    method: str
    path: str  # with the query
    content_type: str
    body: str
    status: int
    answer_type: str
    answer: Any
    headers: dict[str, str]  # Pulsar's own of the answer


class Proxy:
    def __init__(self, web_url: str) -> None:
        self._target = urlsplit(web_url)
        self.seen: list[Exchange] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = _pass

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self) -> list[Exchange]:
        """What passed since the last call. Some commands do not wait for their answer; then this does."""
        try:
            eventually_sync(lambda: self.seen, 0.2)
        except AssertionError:
            pass  # a command without requests
        seen, self.seen = self.seen, []
        return seen

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED}
        exchange, data = send(self._target.netloc, request.command, request.path, body, headers)
        self.seen.append(exchange)
        request.send_response(exchange.status)
        for name, value in exchange.headers.items():
            request.send_header(name, value)
        if exchange.answer_type:
            request.send_header("Content-Type", exchange.answer_type)
        if exchange.status != 204:
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def send(netloc: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[Exchange, bytes]:
    """What does not answer in time is answered with 504."""
    sent_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    connection = http.client.HTTPConnection(netloc, timeout=_PATIENCE_S)
    try:
        connection.request(method, path, body or None, {**headers, "Content-Length": str(len(body))} if body else headers)
        response = connection.getresponse()
        data = response.read()
    except TimeoutError:
        sys.stdout.write(f"no answer to {method} {path}\n")
        return Exchange(method, path, sent_type, body.decode(), 504, "", None, {}), b""
    finally:
        connection.close()
    own = {name: value for name, value in response.getheaders() if name.lower().startswith(("x-pulsar-", "location"))}
    content_type = response.getheader("Content-Type") or ""
    exchange = Exchange(method, path, sent_type, body.decode(), response.status, content_type, _decoded(data), own)
    return exchange, data


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data or b"null")
    except ValueError:
        return data.decode(errors="replace")
