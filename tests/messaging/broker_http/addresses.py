"""Addresses of the WebSocket API, and one message sent over it."""

from __future__ import annotations

from tests.support.brokers.http_edge import Edge, receive_json, send_json

TOPIC = "persistent://public/default/orders"
PRODUCER = "/ws/v2/producer/persistent/public/default/orders"
CONSUMER = "/ws/v2/consumer/persistent/public/default/orders/billing"
READER = "/ws/v2/reader/persistent/public/default/orders"
TOPICS = "/ws/v3/consumer/billing?topics=persistent://public/default/orders"
PATTERN = "/ws/v3/consumer/billing?topicsPattern=persistent://public/default/orders.*"
ENDPOINTS = [PRODUCER, CONSUMER, READER, TOPICS, PATTERN]


def with_token(path: str, token: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}token={token}"


async def publish(edge: Edge, *payloads: str) -> list[str]:
    """Message ids."""
    async with edge.connect(PRODUCER) as producer:
        ids = []
        for payload in payloads:
            await send_json(producer, payload=payload)
            ids.append((await receive_json(producer))["messageId"])
        return ids
