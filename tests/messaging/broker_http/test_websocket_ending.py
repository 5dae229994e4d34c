"""What ends a WebSocket, with which code and reason, and what is left of it."""

from __future__ import annotations

import pytest

from messaging.errors import (
    MagnetarError,
    NotReady,
    TopicNotFound,
)
from tests.messaging.broker_http.addresses import CONSUMER, ENDPOINTS, PRODUCER, TOPIC, publish
from tests.support.brokers.http_edge import Edge, receive_json, send_json
from tests.support.clients.websocket_peer import close_of
from tests.support.waiting import eventually


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_binary_frames_end_the_connection(edge: Edge, path: str) -> None:
    async with edge.connect(path) as connection:
        await connection.send(b"{}")
        assert await close_of(connection) == (1007, "binary frames are not taken: send JSON as text")


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 1000), (NotReady("the topic is moving"), 1012), (TopicNotFound("deleted"), 1008), (MagnetarError("odd"), 1011)],
)
async def test_what_the_broker_closes_is_closed_with_the_reason(edge: Edge, error: MagnetarError | None, code: int) -> None:
    async with edge.connect(CONSUMER) as consumer:
        edge.sessions.consumers[-1].close_by_broker(error)
        assert await close_of(consumer) == (code, error.message if error else "")


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        edge.sessions.consumers[-1].close_by_broker(NotReady("ü" * 200))
        assert await close_of(consumer) == (1012, "ü" * 61)


async def test_connections_and_messages_are_counted(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer:
        await publish(edge, "AQ==")
        await receive_json(consumer)
        await edge.refused(f"/ws/v2/producer/persistent/acme/fixed/missing?token={edge.token('admin')}")
        counters = edge.listeners.counters
        assert (counters.messages_in, counters.messages_out) == (1, 1)
        assert counters.opened == {"consumer": 1, "producer": 1}
        assert counters.refused == {("producer", "404"): 1}
        assert counters.connections["consumer"] == 1
    await eventually(lambda: counters.connections["consumer"] == 0)


async def test_stopping_closes_connections_and_what_they_opened(edge: Edge) -> None:
    async with edge.connect(CONSUMER) as consumer, edge.connect(PRODUCER) as producer:
        await edge.listeners.stop()
        assert (await close_of(consumer))[0] == 1012
        assert (await close_of(producer))[0] == 1012
    topic = edge.topics[TOPIC]
    assert not topic.producers and not topic.subscriptions.table["billing"].consumers


async def test_what_was_read_before_the_end_is_published(edge: Edge) -> None:
    async with edge.connect(PRODUCER) as producer:
        await send_json(producer, payload="AA==")
    await eventually(lambda: TOPIC in edge.topics and edge.entries(TOPIC) == 1)
