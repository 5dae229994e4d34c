"""WebSocket producers under the publish rates of their namespace, like any other producer."""

from __future__ import annotations

import asyncio
import time

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.topics import StatsAsked
from messaging.broker.runtime.admin.handlers import AdminHandlers
from tests.messaging.broker_http.addresses import PRODUCER, TOPIC
from tests.support.brokers.http_edge import GRANTS, Edge, receive_json, running_edge, send_json
from tests.support.waiting import eventually

SLOW = "persistent://acme/orders/orders"
SENT = 60  # at five a second
SLOW_PRODUCER = PRODUCER.replace("public/default", "acme/orders")


async def set_policies(edge: Edge, **policies: int) -> None:
    version = edge.broker.access.view.version
    state = {"policies": policies, "grants": GRANTS}
    change = FeedChange(version=version + 1, kind="namespace", key="acme/orders", state=state)
    await AdminHandlers(edge.broker).feed.apply(FeedApply(from_version=version, to_version=version + 1, changes=[change]))


async def test_a_namespace_at_its_limit_holds_its_producers_and_nobody_elses() -> None:
    async with running_edge(clock_ms=lambda: int(time.time() * 1000)) as edge:
        await set_policies(edge, publish_rate_messages=5)
        token = {"Authorization": f"Bearer {edge.token('writer@acme')}"}
        async with edge.connect(SLOW_PRODUCER, additional_headers=token) as slow, edge.connect(PRODUCER) as quick:
            for number in range(SENT):
                await send_json(slow, payload="AAAA", context=str(number))
            stats = AdminHandlers(edge.broker).topic_stats.stats
            await eventually(lambda: edge.broker.memory_limiter.ingress.used_bytes > 0)
            for number in range(20):
                await send_json(quick, payload="AAAA", context=str(number))
                assert (await receive_json(quick))["context"] == str(number)
            assert edge.entries(TOPIC) == 20
            assert edge.entries(SLOW) < SENT, "it is at it still"
            (publisher,) = (await stats(StatsAsked(topic=SLOW))).stats["publishers"]
            assert publisher["waitingBytes"] > 0
            await set_policies(edge)
            async with asyncio.timeout(5):
                answers = [await receive_json(slow) for _ in range(SENT)]
        assert [(one["result"], one["context"]) for one in answers] == [("ok", str(number)) for number in range(SENT)]
        assert edge.entries(SLOW) == SENT
        await eventually(lambda: edge.broker.memory_limiter.ingress.used_bytes == 0)
