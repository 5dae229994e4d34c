"""A grant that ends by itself ends what is open under it, and lets nobody in from then on, also without the control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import websockets

from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.running_broker import GRANTS, running_broker
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"
BOTH = {"writer@acme": ["produce"], "reader@acme": ["consume"]}
A_WEEK_MS = 7 * 86_400_000


def state(world: BrokerWorld, role: str, topic: str = "") -> dict[str, Any]:
    """Both roles have their grants, `role` for a week."""
    ends = {topic: {role: world.service.now_ms() + A_WEEK_MS}}
    if not topic:
        return {"grants": BOTH, "grant_ends_ms": ends}
    others = {other: actions for other, actions in BOTH.items() if other != role}
    return {"grants": others, "topic_grants": {topic: {role: BOTH[role]}}, "grant_ends_ms": ends}


def pass_time(world: BrokerWorld, passed_ms: int) -> None:
    world.service.access.feed.end_grants(world.service.now_ms() + passed_ms)


@pytest.mark.parametrize("topic", ["", TOPIC], ids=["namespace", "topic"])
async def test_a_producer_and_a_consumer_whose_grants_end(world: BrokerWorld, topic: str) -> None:
    for role, key in (("writer@acme", "writer"), ("reader@acme", "reader")):
        await world.feed(("namespace", "acme/orders", state(world, role, topic)))
        client = await world.connected(key)
        await (client.producer(TOPIC) if key == "writer" else client.subscribe(TOPIC, permits=100))
        pass_time(world, A_WEEK_MS - 60_000)
        await world.service.permission_checks.wait_until_checked()
        assert await client.quiet() == []
        pass_time(world, A_WEEK_MS + 1)
        await client.expect("CLOSE_PRODUCER" if key == "writer" else "CLOSE_CONSUMER")
        if key == "writer":
            client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
        else:
            client.say(C.SUBSCRIBE, topic=TOPIC, consumer_id=1, subscription="s", sub_type=pb.Subscribe.Shared)
        assert (await client.expect("ERROR")).error == pb.AuthorizationError


async def test_others_go_on_and_what_is_told_again_lasts_anew(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/orders", state(world, "reader@acme")))
    writer, reader = await world.connected("writer"), await world.connected("reader")
    await writer.producer(TOPIC)
    await reader.subscribe(TOPIC, permits=100)
    await world.feed(("namespace", "acme/orders", {"grants": BOTH}))  # renewed, without an end
    pass_time(world, A_WEEK_MS + 1)
    await world.service.permission_checks.wait_until_checked()
    writer.write(send_frame(0, b"one"))
    await writer.expect("SEND_RECEIPT")
    assert [message.text for message in await reader.messages(1)] == [b"one"]


async def test_a_websocket_is_closed_within_a_second_of_the_end(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        headers = {"Authorization": f"Bearer {broker.token('reader')}"}
        address = f"{broker.ws_url}/ws/v2/consumer/persistent/acme/orders/t/s"
        ends_ms = broker.service.now_ms() + 700
        await broker.say(("namespace", "acme/orders", {"grants": GRANTS, "grant_ends_ms": {"": {"reader@acme": ends_ms}}}))
        async with websockets.connect(address, additional_headers=headers, proxy=None) as connection:
            async with asyncio.timeout(10):
                await connection.wait_closed()
            assert 0 <= broker.service.now_ms() - ends_ms < 2_000  # a turn a second, on a busy machine
            assert connection.close_code == 1008
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(address, additional_headers=headers, proxy=None)
        assert caught.value.response.status_code == 403
