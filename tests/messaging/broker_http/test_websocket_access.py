"""Who may open a WebSocket: tokens, permissions, foreign pages and hosts."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import websockets

from messaging.permissions.model import Principal
from tests.messaging.broker_http.addresses import CONSUMER, ENDPOINTS, PRODUCER, READER
from tests.messaging.broker_http.websocket_peer import close_of
from tests.support.fake_service import FakeService
from tests.support.http_edge import Edge, running_edge


def tenants_service() -> FakeService:
    service = FakeService()
    service.tokens = {
        "writer-token": Principal("writer@acme", "k1"),
        "reader-token": Principal("reader@acme", "k2"),
        "stranger-token": Principal("someone@other", "k3"),
        "root-token": Principal("admin", "k0"),
    }
    service.grants.namespaces["acme/orders"] = {"writer@acme": {"produce"}, "reader@acme": {"consume"}}
    return service


ACME = {path: path.replace("public/default", "acme/orders") for path in ENDPOINTS}


@pytest.mark.parametrize(
    ("token", "may"),
    [
        ("writer-token", {PRODUCER}),
        ("reader-token", {CONSUMER, READER}),
        ("stranger-token", set()),
        ("root-token", set(ENDPOINTS)),
        (None, set()),
    ],
)
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_each_endpoint_asks_for_its_permission(path: str, token: str | None, may: set[str]) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with running_edge(tenants_service()) as edge:
        if path in may:
            async with edge.connect(ACME[path], additional_headers=headers):
                pass
        else:
            status, body = await edge.refused(ACME[path], additional_headers=headers)
            assert (status, body["code"]) == (403, "not_authorized")
            assert edge.service.topics == {}


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_service_that_forgets_to_check_is_caught_by_the_table(path: str) -> None:
    class Forgetful(FakeService):
        def _topic(self, principal: Principal, *args: Any) -> Any:
            return super()._topic(Principal("admin"), *args)

    service = Forgetful()
    service.tokens = tenants_service().tokens
    async with running_edge(service) as edge:
        status, body = await edge.refused(f"{ACME[path]}?token=stranger-token")
        assert (status, body["code"]) == (403, "not_authorized")
        [topic] = service.topics.values()
        assert not topic.producers and not any(s.consumers for s in topic.subscriptions.values())


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_tokens_by_header_or_query(path: str) -> None:
    async with running_edge(tenants_service()) as edge:
        async with edge.connect(f"{ACME[path]}?token=root-token"):
            pass
        for options in (
            {"path": f"{ACME[path]}?token=forged"},
            {"path": ACME[path], "additional_headers": {"Authorization": "Bearer forged"}},
            {"path": f"{ACME[path]}?token=root-token", "additional_headers": {"Authorization": "Basic cm9vdA=="}},
        ):
            status, body = await edge.refused(**options)
            assert (status, body["code"]) == (401, "authentication_failed")


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_foreign_pages_are_refused_before_anything_else(edge: Edge, path: str) -> None:
    status, body = await edge.refused(path + "?token=forged", origin="https://evil.example")
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
async def test_no_token_is_ever_logged(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Neither as configured with everything at debug, nor where somebody turns uvicorn's lines about requests on again."""
    caplog.set_level(logging.DEBUG)
    async with running_edge(tenants_service()) as edge:
        if level:
            caplog.set_level(level, "uvicorn.error")
        headers = {"Authorization": "Bearer root-token"}
        async with edge.connect(ACME[PRODUCER] + "?token=root-token", additional_headers=headers):
            pass
        await edge.refused(ACME[PRODUCER] + "?token=stranger-token")
        await edge.refused("/unknown?token=stranger-token")
    servers = [record for record in caplog.records if record.name != "websockets.client"]
    if level:
        assert [record for record in servers if record.name == "uvicorn.error"]
    assert not [record for record in servers if "-token" in record.getMessage()]


async def test_a_connection_ends_when_its_token_does() -> None:
    service = tenants_service()
    service.tokens["short"] = Principal("admin", "k", expires_ms=1_000_050)
    async with running_edge(service, clock_ms=lambda: 1_000_000) as edge, edge.connect(PRODUCER + "?token=short") as producer:
        code, reason = await close_of(producer)
        assert code == 1008 and "expired" in reason
