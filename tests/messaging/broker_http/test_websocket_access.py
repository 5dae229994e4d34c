"""Who may open a WebSocket: tokens, permissions, foreign pages and hosts."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import websockets

from messaging.broker.http.websocket.binary import BINARY_PATTERN
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.permissions.model import Principal
from messaging.permissions.table import WEBSOCKET
from messaging.protocol.names import parse_topic
from tests.messaging.broker_http.addresses import CONSUMER, ENDPOINTS, PATTERN, PRODUCER, READER, TOPICS, with_token
from tests.support.brokers.http_edge import Edge, running_edge
from tests.support.brokers.storage_broker import ADMIN
from tests.support.clients.websocket_peer import close_of


class Forgetful(LocalSessions):
    """Opens everything for everybody."""

    async def open_producer(self, principal: Principal, *args: Any, **options: Any) -> Any:
        return await super().open_producer(ADMIN, *args, **options)

    async def partitions(self, principal: Principal, *args: Any, **options: Any) -> Any:
        return await super().partitions(ADMIN, *args, **options)

    async def subscribe(self, principal: Principal, *args: Any, **options: Any) -> Any:
        return await super().subscribe(ADMIN, *args, **options)

    async def subscribe_topics(self, principal: Principal, *args: Any, **options: Any) -> Any:
        return await super().subscribe_topics(ADMIN, *args, **options)

    async def subscribe_pattern(self, principal: Principal, *args: Any, **options: Any) -> Any:
        return await super().subscribe_pattern(ADMIN, *args, **options)


ACME = {path: path.replace("public/default", "acme/orders") for path in ENDPOINTS}


def test_every_endpoint_is_tried() -> None:
    """Those of the JSON API; `test_websocket_binary` has the other, which knows nobody before CONNECT."""
    json = WEBSOCKET.keys() - {BINARY_PATTERN}
    assert {tuple(path.split("/")[1:4]) for path in ENDPOINTS} == {tuple(pattern.split("/")[1:4]) for pattern in json}
    assert len(ENDPOINTS) == len(json) + 1, "that of several topics by their names, and by a pattern"


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("writer@acme", {PRODUCER}),
        ("reader@acme", {CONSUMER, READER, TOPICS, PATTERN}),
        ("someone@other", set()),
        ("admin", set(ENDPOINTS)),
        (None, set()),
    ],
)
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_each_endpoint_asks_for_its_permission(edge: Edge, path: str, role: str | None, may: set[str]) -> None:
    headers = {"Authorization": f"Bearer {edge.token(role)}"} if role else {}
    if path in may:
        async with edge.connect(ACME[path], additional_headers=headers):
            pass
    else:
        status, body = await edge.refused(ACME[path], additional_headers=headers)
        assert (status, body["code"]) == (403, "not_authorized")
        assert edge.topics == {}


async def test_nobody_of_a_tenant_publishes_change_events(edge: Edge) -> None:
    path = ACME[PRODUCER].rpartition("/")[0] + "/__change_events"
    status, body = await edge.refused(f"{path}?token={edge.token('writer@acme')}")
    assert (status, body["code"]) == (403, "not_authorized") and "the platform writes there" in body["message"]
    async with edge.connect(f"{path}?token={edge.token('admin')}"):
        pass


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_broker_that_forgets_to_check_is_caught_by_the_table(edge: Edge, path: str) -> None:
    await edge.broker.open_topic(parse_topic("persistent://acme/orders/orders"))  # for the pattern
    edge.sessions.sessions = Forgetful(edge.broker)
    status, body = await edge.refused(with_token(ACME[path], edge.token("someone@other")))
    assert (status, body["code"]) == (403, "not_authorized")
    [topic] = edge.topics.values()
    assert not topic.producers and not any(s.consumers for s in topic.subscriptions.table.values())


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_tokens_by_header_or_query(edge: Edge, path: str) -> None:
    async with edge.connect(with_token(ACME[path], edge.token("admin"))):
        pass
    for options in (
        {"path": with_token(ACME[path], "forged")},
        {"path": ACME[path], "additional_headers": {"Authorization": "Bearer forged"}},
        {"path": with_token(ACME[path], edge.token("admin")), "additional_headers": {"Authorization": "Basic cm9vdA=="}},
    ):
        status, body = await edge.refused(**options)
        assert (status, body["code"]) == (401, "authentication_failed")


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_foreign_pages_are_refused_before_anything_else(edge: Edge, path: str) -> None:
    status, body = await edge.refused(with_token(path, "forged"), origin="https://evil.example")
    assert status == 403 and "evil.example" in body["message"]
    async with edge.connect(path, origin="http://localhost:8080"):
        pass


async def test_a_foreign_host_is_refused(edge: Edge) -> None:
    url = f"ws://rebinding.example:{edge.listeners.ws_port}{PRODUCER}"
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with websockets.connect(url, host="127.0.0.1", port=edge.listeners.ws_port, proxy=None):
            pass
    assert caught.value.response.status_code == 421


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO])
async def test_no_token_is_ever_logged(edge: Edge, caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Neither as configured with everything at debug, nor where somebody turns uvicorn's lines about requests on again."""
    caplog.set_level(logging.DEBUG)
    root, stranger = edge.token("admin"), edge.token("someone@other")
    if level:
        caplog.set_level(level, "uvicorn.error")
    async with edge.connect(f"{ACME[PRODUCER]}?token={root}", additional_headers={"Authorization": f"Bearer {root}"}):
        pass
    await edge.refused(f"{ACME[PRODUCER]}?token={stranger}")
    await edge.refused(f"/unknown?token={stranger}")
    await edge.listeners.stop()
    servers = [record for record in caplog.records if record.name != "websockets.client"]
    if level:
        assert [record for record in servers if record.name == "uvicorn.error"]
    for token in (root, stranger):
        assert not [record for record in servers if token.rpartition(".")[2] in record.getMessage()]


async def test_a_connection_ends_when_its_token_does() -> None:
    async with running_edge(clock_ms=lambda: 999_950) as edge:
        async with edge.connect(f"{PRODUCER}?token={edge.token('admin', expires_s=1_000)}") as producer:
            code, reason = await close_of(producer)
        assert code == 1008 and "expired" in reason
