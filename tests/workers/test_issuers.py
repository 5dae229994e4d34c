"""Keys of issuers are fetched by a worker: from a real server, whatever that answers, and from nowhere else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings as django_settings
from jwt.algorithms import ECAlgorithm

from messaging.identity.issuers import JWKS_BYTES_MAX
from tenants.models import Tenant, TokenIssuer
from tests.support.brokers.worker_broker import Clock
from workers.environment import Environment
from workers.tasks import issuers
from workers.tasks.issuers import refresh_issuers

pytestmark = pytest.mark.django_db


def document(*kids: str) -> bytes:
    keys = [{**json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key())), "kid": kid} for kid in kids]
    return json.dumps({"keys": keys}).encode()


class Login:
    """Somebody else's server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status, self.body, self.headers = 200, document("k1"), dict[str, str]()
        self.asked: list[str] = []


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(served.body)))
            self.end_headers()
            self.wfile.write(served.body)

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    served = Login(f"http://127.0.0.1:{server.server_port}")
    allows = (f"acme={served.url}/keys/",)
    monkeypatch.setattr(
        django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, token_issuers_allowed=allows)
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def issuer(login: Login) -> TokenIssuer:
    tenant = Tenant.unscoped.create(name="acme")
    terms = {"issuer": "i", "audience": "a", "jwks_url": f"{login.url}/keys/jwks.json", "roles": {"x": "app"}}
    return TokenIssuer.unscoped.create(tenant=tenant, name="corp", **terms)


@pytest.fixture
def refresh(environment: Environment, issuer: TokenIssuer) -> Callable[[], dict[str, object]]:
    def run() -> dict[str, object]:
        summary = refresh_issuers(environment, "run-1", lambda **_: None)
        issuer.refresh_from_db()
        return summary

    return run


def kids(issuer: TokenIssuer) -> list[str]:
    return [key["kid"] for key in issuer.keys]


def test_keys_are_fetched_and_replaced(
    login: Login, issuer: TokenIssuer, refresh: Callable[[], dict[str, object]], clock: Clock
) -> None:
    assert refresh() == {"fetched": 1, "changed": 1, "problems": 0}
    assert kids(issuer) == ["k1"] and issuer.fetched_at == clock.at and login.asked == ["/keys/jwks.json"]
    clock.advance(60)
    assert refresh() == {"fetched": 1, "changed": 0, "problems": 0}
    assert issuer.fetched_at == clock.at
    login.body = document("k1", "k2")
    assert refresh()["changed"] == 1
    assert kids(issuer) == ["k1", "k2"]


@pytest.mark.parametrize(
    ("status", "body", "headers", "why"),
    [
        (503, b"", {}, "status 503"),
        (302, b"", {"Location": "/keys/elsewhere"}, "status 302"),
        (200, b"<html>", {}, "not JSON"),
        (200, b" " * (JWKS_BYTES_MAX + 1), {}, "more than"),
        (200, b'{"keys": []}', {}, "0 keys"),
    ],
)
def test_what_cannot_be_fetched_keeps_the_keys_and_is_said(
    login: Login,
    issuer: TokenIssuer,
    refresh: Callable[[], dict[str, object]],
    clock: Clock,
    status: int,
    body: bytes,
    headers: dict[str, str],
    why: str,
) -> None:
    refresh()
    before = clock.at
    clock.advance(60)
    login.status, login.body, login.headers = status, body, headers
    assert refresh() == {"fetched": 0, "changed": 0, "problems": 1}
    assert kids(issuer) == ["k1"] and why in issuer.problem
    assert (issuer.fetched_at, issuer.tried_at) == (before, before + timedelta(seconds=60))
    assert len(login.asked) == 2, "a redirect is not followed"
    login.status, login.body = 200, document("k3")
    refresh()
    assert (kids(issuer), issuer.problem) == (["k3"], "")


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"])
def test_a_server_that_never_stops_sending_holds_nobody(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status line, headers or document: a few bytes at a time, each sooner than a wait for the next one ends."""
    monkeypatch.setattr(issuers, "TIMEOUT_S", 0.3)
    left = threading.Event()

    def dribble() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(begin)
            while not left.wait(0.01):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=dribble, daemon=True)
        server.start()
        with pytest.raises(TimeoutError, match="took too long"):
            issuers.fetch(f"http://127.0.0.1:{listening.getsockname()[1]}/keys")
        left.set()
        server.join()


def test_an_address_that_is_no_longer_allowed_is_not_asked(
    login: Login, issuer: TokenIssuer, refresh: Callable[[], dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, token_issuers_allowed=()))
    assert refresh()["problems"] == 1
    assert login.asked == [] and "no longer in token_issuers_allowed" in issuer.problem
