"""The whole web application as a server sees it: the gate before it, paths as they were sent, health and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings

from controlplane import current
from controlplane.asgi import application
from controlplane.backup import last
from controlplane.guard import Guard, internal_hosts
from messaging.http_guard import check_host
from messaging.identity import read_secret
from messaging.limits.rest import BODY_BYTES_MAX
from messaging.settings import Settings
from tenants import broker as calls
from tenants.first_rows import create_first_rows
from tests.controlplane.web.asgi import request, websocket
from tests.support.brokers.control_plane import connected
from tests.support.brokers.memory_broker import MemoryBroker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(transactional_db: None) -> Iterator[MemoryBroker]:
    create_first_rows(django_settings.MAGNETAR)
    with connected() as memory_broker:
        yield memory_broker.broker


@pytest.fixture
def superuser(broker: MemoryBroker) -> dict[str, str]:
    return {"Authorization": f"Bearer {read_secret(django_settings.MAGNETAR, 'superuser.token')}"}


# --- the gate ----------------------------------------------------------------------------------------------------------------


async def test_foreign_names_and_pages_are_refused_everywhere(broker: MemoryBroker) -> None:
    for path in ("/", "/healthz", "/api/v1/me", "/admin/v2/tenants", "/static/x", "/internal/v1/feed"):
        refused = await request(application, "GET", path, {"host": "evil.example"})
        assert (refused.status, refused.json()["code"]) == (421, "unknown_host"), path
        refused = await request(application, "GET", path, {"origin": "http://evil.example"})
        assert (refused.status, refused.json()["code"]) == (403, "foreign_origin"), path
        refused = await request(application, "GET", path, {"origin": "null"})
        assert refused.status == 403, path
    assert (await request(application, "GET", "/healthz", {"origin": "http://127.0.0.1:8081"})).status == 200
    assert (await request(application, "GET", "/healthz", {"host": "localhost:1"})).status == 200


async def test_a_view_that_raises_stop_iteration_is_answered(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(_: float) -> bool:
        raise StopIteration

    monkeypatch.setattr(calls, "takes_calls", stopping)
    assert (await request(application, "GET", "/readyz")).status == 500


async def test_foreign_pages_open_no_websocket() -> None:
    for headers in (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:8080", "Origin": "http://evil.example"},
        {},
    ):
        answer = await websocket(application, "/live/tenants/public/namespaces/public", headers)
        assert answer["type"] == "websocket.close", headers


async def test_two_host_headers_are_none() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"host", b"evil.example")]

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await Guard(inner, Settings())({"type": "http", "headers": headers}, receive, send)
    assert sent[0]["status"] == 421


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("10.1.2.3:7651", True), ("web.example.com:7651", True), ("10.1.2.4:7651", False), ("evil.example", False)],
)
def test_the_listener_for_our_processes_goes_by_where_it_listens_and_what_brokers_are_told(host: str, allowed: bool) -> None:
    """Brokers ask there for all tenants and keys, whatever the name of the console is."""
    named = {"web_internal_host": "10.1.2.3", "web_internal_url": "https://web.example.com:7651"}
    files = {f"internal_tls_{kind}_file": "x" for kind in ("cert", "key", "ca")}
    hosts = internal_hosts(Settings(**named, **files))  # type: ignore[arg-type]
    assert (check_host(host, hosts) is None) is allowed


async def test_bodies_are_bounded_with_and_without_a_length(superuser: dict[str, str]) -> None:
    too_long = {**superuser, "Content-Type": "application/json", "Content-Length": str(BODY_BYTES_MAX + 1)}
    refused = await request(application, "POST", "/api/v1/tenants", too_long, b"{")
    assert (refused.status, refused.json()["code"]) == (413, "too_large")
    for length in ("-1", "x", "1e3"):
        refused = await request(application, "POST", "/api/v1/tenants", {**superuser, "Content-Length": length}, b"{")
        assert refused.status == 413
    portions = [b" " * (BODY_BYTES_MAX // 4)] * 5
    refused = await request(application, "POST", "/api/v1/tenants", superuser, portions)
    assert refused.status == 413
    made = await request(
        application,
        "POST",
        "/api/v1/tenants",
        {**superuser, "Content-Type": "application/json"},
        [b'{"name":', b' "third"}'],
    )
    assert made.status == 201


@pytest.mark.parametrize(("pieces", "read"), [(5, 5), (1_000, 16)], ids=["all of it", "up to a limit"])
async def test_a_client_that_sends_all_of_a_body_before_it_reads_gets_the_refusal(pieces: int, read: int) -> None:
    """A connection that is closed with something unread is reset, and the answer lost. What never ends is not waited for."""
    order: list[str] = []

    async def receive() -> Any:
        order.append("read")
        return {"type": "http.request", "body": b" " * (1 << 20), "more_body": order.count("read") < pieces}

    async def send(message: Any) -> None:
        order.append(message.get("status") or ("body" if message.get("more_body") else "end"))

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"%d" % (pieces << 20))]
    await Guard(inner, Settings())({"type": "http", "headers": headers}, receive, send)
    assert order == [413, "body", *["read"] * read, "end"]


# --- paths as sent -----------------------------------------------------------------------------------------------------------


async def test_an_encoded_slash_is_no_slash(superuser: dict[str, str], broker: MemoryBroker) -> None:
    topic = "persistent://public/default/t"
    broker.add(topic)
    at = "/admin/v2/persistent/public/default"
    for spelled, name in (
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a/b"),
        ("50%25", "50%"),
        ("%C3%BC", "ü"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
    ):
        answer = await request(application, "PUT", f"{at}/t/subscription/{spelled}", superuser)
        assert (answer.status, broker.topics[topic]) == (204, {name}), spelled
        broker.have("public/default", (), {})
        broker.add(topic)
    for spelled in ("a%2Fb", "..%2F..%2Fother", "%00", "a%0Ab", "%FF%2F"):
        answer = await request(application, "PUT", f"{at}/{spelled}", superuser)
        assert answer.status == 412, spelled
    made = await request(application, "PUT", f"{at}/a%25b%3Fc", superuser)
    assert made.status == 204
    assert "persistent://public/default/a%b?c" in broker.topics
    assert (await request(application, "PUT", "/admin/v2/tenants/a%2Fb", superuser)).status == 412
    assert (await request(application, "GET", "/api/v1/tenants/pub%6Cic", superuser)).json()["name"] == "public"


async def test_dots_and_double_slashes_lead_nowhere(superuser: dict[str, str]) -> None:
    for path in ("/api/v1/../v1/me", "/api/v1//me", "//api/v1/me", "/api/v1/me/", "/admin/v2/tenants/..%2Fpublic"):
        assert (await request(application, "GET", path, superuser)).status in (404, 412), path


# --- health, metrics, static -------------------------------------------------------------------------------------------------


async def test_health(broker: MemoryBroker) -> None:
    for path in ("/healthz", "/readyz", "/status.html"):
        answer = await request(application, "GET", path)
        assert (answer.status, answer.body) == (200, b"ok\n"), path
    assert (await request(application, "HEAD", "/healthz")).status == 200
    assert (await request(application, "POST", "/healthz")).status == 405


async def test_readiness_follows_the_database(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import DatabaseError

    from tenants.models import FeedHead

    def broken(**_: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(FeedHead.objects, "filter", broken)
    assert (await request(application, "GET", "/readyz")).status == 503
    assert (await request(application, "GET", "/healthz")).status == 200


async def test_metrics_name_no_tenant(superuser: dict[str, str]) -> None:
    await request(application, "GET", "/admin/v2/namespaces/public", superuser)
    answer = await request(application, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.body.decode()
    assert 'magnetar_web_requests_total{status="200"}' in text
    assert "magnetar_web_feed_version" in text
    assert "public" not in text


async def test_metrics_say_when_the_last_backup_was_taken_if_one_is_known() -> None:
    assert "magnetar_last_backup_seconds" not in (await request(application, "GET", "/metrics")).body.decode()
    data_path = current.settings().data_path
    last.record(data_path, last.LastBackup(1_795_000_000_000, "/backups/one", 1))
    try:
        assert "magnetar_last_backup_seconds 1.795e+09" in (await request(application, "GET", "/metrics")).body.decode()
    finally:
        (data_path / last.NAME).unlink()


async def test_answers_carry_the_headers_that_protect(broker: MemoryBroker) -> None:
    answer = await request(application, "GET", "/api/v1/docs")
    assert answer.status == 200
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-request-id"]


async def test_static_files_are_served_with_validators(broker: MemoryBroker) -> None:
    from django.contrib.staticfiles import finders

    @sync_to_async
    def some_file() -> str:
        return next(path for finder in finders.get_finders() for path, _ in finder.list([]) if path.endswith(".css"))

    path = f"/static/{await some_file()}"
    answer = await request(application, "GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, 'text/css; charset="utf-8"')
    assert answer.body
    again = await request(
        application,
        "GET",
        path,
        {"If-None-Match": answer.headers.get("etag", ""), "If-Modified-Since": answer.headers["last-modified"]},
    )
    assert again.status == 304
    assert (await request(application, "GET", "/static/../settings.py")).status == 404
