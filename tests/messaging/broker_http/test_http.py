from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from messaging.adminrpc.base import Request
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.feed import FeedVersion
from messaging.adminrpc.messages import MessageFind
from messaging.adminrpc.methods import FEED_VERSION, MESSAGES_FIND, METHODS, TOPICS_CREATE
from messaging.adminrpc.topics import TopicCreate
from messaging.broker.http import handlers, start_http
from messaging.caller import Caller, working_for
from messaging.errors import Conflict, NotReady
from messaging.permissions.model import Principal
from tests.support.brokers.http_edge import Edge, bound, running_edge
from tests.support.brokers.storage_broker import publish
from tests.support.waiting import eventually


async def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """Status and body, as JSON where it is that."""

    def run() -> tuple[int, Any]:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
            is_json = response.headers["Content-Type"] == "application/json" and content
            return response.status, json.loads(content) if is_json else content

    return await asyncio.to_thread(run)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_health_and_readiness_on_both_listeners(edge: Edge) -> None:
    for port in (edge.listeners.rpc_port, edge.listeners.ws_port):
        assert await ask(port, "GET", "/healthz") == (200, {"status": "live"})
        assert (await ask(port, "HEAD", "/healthz"))[0] == 200
        assert await ask(port, "GET", "/readyz") == (200, {"status": "ready"})
    edge.broker.why_not_ready = "the log is being replayed"
    assert await ask(edge.listeners.ws_port, "GET", "/readyz") == (
        503,
        {"status": "not ready", "reason": "the log is being replayed"},
    )


async def test_unknown_paths_and_methods(edge: Edge) -> None:
    for path in ("/", "/healthz/", "/rpc/v1/", "/rpc/v1/a/b", "/%ff"):
        status, body = await ask(edge.listeners.rpc_port, "GET", path)
        assert status in (400, 404) and body["code"] in ("not_found", "invalid_value"), path
    status, body = await ask(edge.listeners.rpc_port, "DELETE", "/healthz")
    assert (status, body["code"]) == (405, "not_allowed")


async def test_the_public_listener_has_no_admin_rpc(edge: Edge) -> None:
    status, _ = await ask(edge.listeners.ws_port, "POST", "/rpc/v1/status", b"{}", **bearer(edge.identity))
    assert status == 404
    assert edge.rpc.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebinding.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
async def test_host_and_origin_are_checked_on_every_path(edge: Edge, headers: dict[str, str], status: int) -> None:
    for port in (edge.listeners.rpc_port, edge.listeners.ws_port):
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await ask(port, "GET", path, None, **headers))[0] == status
    got, _ = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/feed.version", b"{}", **headers, **bearer(edge.identity))
    assert got == status


async def test_metrics_show_names_of_tenants_to_superusers_only(edge: Edge) -> None:
    await publish(edge.broker, 0, 5, topic="persistent://acme/orders/secret-plan")
    port = edge.listeners.ws_port
    for headers in ({}, bearer(edge.token("writer@acme"))):
        status, text = await ask(port, "GET", "/metrics", None, **headers)
        assert status == 200 and b"secret-plan" not in text
        values = {s.name: s.value for f in text_string_to_metric_families(text.decode()) for s in f.samples}
        assert values["magnetar_messages_in_total"] == 5
        assert "magnetar_websocket_messages_in_total" in values
        found = {
            (s.name, s.labels.get("listener"), s.labels.get("lane", "")): s.value
            for f in text_string_to_metric_families(text.decode())
            for s in f.samples
        }
        assert found["magnetar_http_connections", "public", ""] >= 1
        assert found["magnetar_http_requests_turned_away_total", "rpc", "requests"] == 0
        assert found["magnetar_http_unread_bytes", "public", ""] == 0
    status, text = await ask(port, "GET", "/metrics", None, **bearer(edge.token("admin")))
    assert status == 200 and b"secret-plan" in text
    assert (await ask(port, "GET", "/metrics", None, **bearer("wrong")))[0] == 401


async def test_a_call_reaches_the_method_of_the_service(edge: Edge) -> None:
    request = TopicCreate(topic="persistent://acme/orders/c", partitions=2)
    identity = edge.identity

    def run() -> None:
        with closing(AdminRpc(lambda: f"http://127.0.0.1:{edge.listeners.rpc_port}", lambda: identity)) as rpc:
            assert rpc.call(FEED_VERSION, Request()) == FeedVersion(version=edge.broker.access.view.version)
            rpc.call(TOPICS_CREATE, request)
            with pytest.raises(Conflict, match="exists already: choose another name"):
                rpc.call(TOPICS_CREATE, request)

    await asyncio.to_thread(run)
    assert edge.rpc.calls[1] == ("topics.create", request)


async def test_a_change_is_not_begun_for_somebody_who_left(edge: Edge) -> None:
    """A broker that had stood still read it once it went on, and made a change of which its caller had said that it failed."""
    for method, body in ((TOPICS_CREATE, b'{"topic": "persistent://acme/orders/c", "partitions": 2}'), (FEED_VERSION, b"{}")):
        head = f"POST /rpc/v1/{method.name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {edge.identity}\r\n"
        with socket.create_connection(("127.0.0.1", edge.listeners.rpc_port)) as caller:  # the loop stands still meanwhile
            caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await eventually(lambda: bool(edge.rpc.calls))
    assert [name for name, _ in edge.rpc.calls] == [FEED_VERSION.name], "what only reads does no harm"


@pytest.mark.parametrize("method", METHODS)
async def test_no_method_answers_without_a_service_identity(edge: Edge, method: str) -> None:
    for headers in (
        {},
        bearer(edge.token("admin")),
        bearer(edge.token("someone@other")),
        bearer("forged"),
        {"Authorization": "Basic aWRlbnRpdHk6"},
    ):
        status, body = await ask(edge.listeners.rpc_port, "POST", f"/rpc/v1/{method}", b"{}", **headers)
        assert (status, body["code"]) == (401, "authentication_failed")
    assert edge.rpc.calls == []


async def test_an_identity_that_is_no_service_is_refused(edge: Edge) -> None:
    class Lenient:
        def verify(self, token: str, now_ms: int) -> Principal:
            return Principal("admin")

    listeners = await start_http(edge.served(), edge.settings, rpc_sock=bound(), ws_sock=None, verifier=Lenient())
    try:
        status, body = await ask(listeners.rpc_port, "POST", "/rpc/v1/feed.version", b"{}", **bearer("x"))
        assert (status, body["code"]) == (403, "not_authorized")
    finally:
        await listeners.stop()


async def test_bad_requests_of_the_rpc(edge: Edge) -> None:
    port = edge.listeners.rpc_port
    status, body = await ask(port, "POST", "/rpc/v1/topics.create", b'{"topic": 3}', **bearer(edge.identity))
    assert (status, body["code"]) == (400, "invalid_value") and "$.topic" in body["message"]
    status, body = await ask(port, "POST", "/rpc/v1/topics.create", b"{", **bearer(edge.identity))
    assert (status, body["code"]) == (400, "invalid_value")
    assert edge.rpc.calls == []


async def test_a_call_of_a_later_release_says_nothing_of_what_it_is_about(edge: Edge) -> None:
    status, body = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/topics.explode", b"{}", **bearer(edge.identity))
    assert (status, body["code"]) == (503, "not_ready") and "earlier release" in body["message"]


async def test_a_body_is_refused_as_soon_as_it_is_too_large(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "RPC_BODY_BYTES_MAX", 100)
    status, body = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/feed.version", b" " * 101, **bearer(edge.identity))
    assert (status, body["code"]) == (413, "message_too_large")
    status, _ = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/feed.version", b"{" + b" " * 98 + b"}", **bearer(edge.identity))
    assert status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "RPC_BODY_TIMEOUT_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.listeners.rpc_port)
    head = "POST /rpc/v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
    writer.write(f"{head}Authorization: Bearer {edge.identity}\r\n\r\n{{".encode())
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()


async def test_a_failure_nobody_expected_has_an_id_that_is_in_the_log(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    edge.rpc.fail("feed.version", RuntimeError("the cause, with /a/secret/path"))
    status, body = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/feed.version", b"{}", **bearer(edge.identity))
    assert (status, body["code"]) == (500, "internal")
    assert "secret" not in body["message"]
    [record] = [record for record in caplog.records if record.message == "request failed unexpectedly"]
    assert record.__dict__["request_id"] in body["message"]


async def test_a_connection_without_a_request_is_closed() -> None:
    async with running_edge(http_header_timeout_ms=50) as edge:
        for port in (edge.listeners.rpc_port, edge.listeners.ws_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: loc")
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()


async def test_requests_are_counted_by_route(edge: Edge) -> None:
    await ask(edge.listeners.ws_port, "GET", "/healthz")
    await ask(edge.listeners.ws_port, "GET", "/surprise")
    counted = dict(edge.listeners.counters.requests)
    assert counted == {("/healthz", "200"): 1, ("unknown", "404"): 1}


async def test_the_broker_keeps_its_signals_and_stopping_frees_the_ports() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    async with running_edge() as edge:
        assert {number: signal.getsignal(number) for number in before} == before
        port = edge.listeners.ws_port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await edge.listeners.stop()
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_broker_without_a_method_of_the_rpc_does_not_start(edge: Edge) -> None:
    del edge.rpc.methods["topics.unload"]
    with bound() as sock, pytest.raises(TypeError, match=r"topics\.unload"):
        await start_http(edge.served(), edge.settings, rpc_sock=sock, ws_sock=None)


async def test_a_field_of_the_rpc_over_its_limit_is_refused_by_name(edge: Edge) -> None:
    body = b'{"topic": "' + b"t" * 4097 + b'"}'
    status, answer = await ask(edge.listeners.rpc_port, "POST", "/rpc/v1/topics.create", body, **bearer(edge.identity))
    assert (status, answer["message"]) == (400, "topic has 4097 bytes; at most 4096 are allowed: shorten it")
    assert edge.rpc.calls == []


async def test_whoever_leaves_before_the_answer_ends_a_long_read_and_nothing_else(edge: Edge) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    def slow(name: str) -> Any:
        async def work(request: Any) -> Any:
            begun.set()
            try:
                await (asyncio.Event() if name == "messages.find" else finish).wait()
                done.append(name)
            finally:
                ended.set()
            return FeedVersion(version=0)

        return work

    finish = asyncio.Event()
    for name, body in (("messages.find", b'{"topic": "t", "timestamp_ms": 1}'), ("topics.truncate", b'{"topic": "t"}')):
        edge.rpc.methods[name] = slow(name)
        begun.clear()
        ended.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", edge.listeners.rpc_port)
        head = f"POST /rpc/v1/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {edge.identity}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await asyncio.wait_for(begun.wait(), 10)
        writer.close()
        await writer.wait_closed()
        finish.set()
        await asyncio.wait_for(ended.wait(), 10)
    assert done == ["topics.truncate"], "what changes something is done to its end"


async def test_a_client_whose_caller_leaves_ends_the_work_at_the_broker(edge: Edge) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def find(request: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    edge.rpc.methods["messages.find"] = find
    rpc = AdminRpc(lambda: f"http://127.0.0.1:{edge.listeners.rpc_port}", lambda: edge.identity)
    caller = Caller("acme")

    def ask() -> None:
        with working_for(caller):
            rpc.call(MESSAGES_FIND, MessageFind(topic="t", timestamp_ms=1))

    asking = asyncio.create_task(asyncio.to_thread(ask))
    await asyncio.wait_for(begun.wait(), 10)
    caller.leave()
    with pytest.raises(NotReady, match="the caller left"):
        await asking
    await asyncio.wait_for(ended.wait(), 10)
