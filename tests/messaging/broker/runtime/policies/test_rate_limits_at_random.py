"""Producers and consumers under limits that change, with members that come and go: nothing is lost, nothing is out of order, and
in the end nothing is held."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.virtual_broker import TOPIC, VirtualClient, VirtualWorld, in_virtual_time

RATES: list[dict[str, Any]] = [
    {},
    {"publish_rate_messages": 50},
    {"publish_rate_bytes": 20_000},
    {"dispatch_rate_messages": 80},
    {"publish_rate_messages": 2000, "subscription_dispatch_rate_bytes": 30_000},
    {"publish_rate_messages": 500, "publish_rate_bytes": 500_000, "dispatch_rate_messages": 300, "dispatch_rate_period_s": 3},
]


class Sender:
    """Sends what has no receipt again when its producer is closed, as stock clients do."""

    def __init__(self, client: VirtualClient) -> None:
        self.client = client
        self.sent = 0

    @property
    def receipts(self) -> list[int]:
        self.client.read()
        return self.client.receipts.get(1, [])


@pytest.mark.parametrize("seed", range(8))
def test_producers_under_limits_that_change(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    async def work(world: VirtualWorld) -> None:
        senders: list[Sender] = []
        gone = 0
        for _ in range(60):
            match chance.randrange(6):
                case 0:
                    senders.append(Sender(await world.producing(producer_name=f"p{len(senders)}-{gone}")))
                case 1 if senders:
                    leaver = senders.pop(chance.randrange(len(senders)))
                    assert leaver.receipts == list(range(len(leaver.receipts)))
                    leaver.client.connection_lost(None)
                    gone += 1
                case 2:
                    await world.set_policies(**chance.choice(RATES))
                case 3:
                    await world.pass_s(chance.choice([0.001, 0.05, 1.0]))
                case _ if senders:
                    sender = chance.choice(senders)
                    count, batch = chance.randrange(1, 300), chance.choice([1, 1, 8])
                    if sender.client.receiver.reading:
                        sender.client.publish(sender.sent, sender.sent + count, b"x" * chance.randrange(500), batch=batch)
                        sender.sent += count
        await world.set_policies(publish_rate_messages=200_000)
        await world.pass_s(30)
        for sender in senders:
            assert sender.receipts == list(range(sender.sent))
        ingress = world.service.ingress_limiter
        assert (world.service.memory_limiter.ingress.used_bytes, ingress.parked_bytes, ingress.parked_too_much) == (0, 0, 0)

    in_virtual_time(tmp_path, work, deduplication=bool(seed % 2))


@pytest.mark.parametrize("seed", range(8))
def test_consumers_under_limits_that_change(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    kind = [pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover, pb.Subscribe.Key_Shared][seed % 4]

    async def work(world: VirtualWorld) -> None:
        producer = await world.producing()
        sent = 0
        consumers: list[VirtualClient] = []
        for _ in range(60):
            match chance.randrange(6):
                case 0 if not consumers or kind in (pb.Subscribe.Shared, pb.Subscribe.Key_Shared):
                    client = world.client()
                    await client.subscribe(TOPIC, sub_type=kind, consumer_name=f"c{len(consumers)}")
                    client.flow(1_000_000)
                    consumers.append(client)
                case 1 if len(consumers) > 1:
                    consumers.pop(chance.randrange(len(consumers))).connection_lost(None)
                case 2:
                    await world.set_policies(**chance.choice(RATES))
                case 3:
                    await world.pass_s(chance.choice([0.001, 0.05, 1.0]))
                case _:
                    count = chance.randrange(1, 300)
                    producer.publish(sent, sent + count, b"x" * chance.randrange(500), batch=chance.choice([1, 1, 8]))
                    sent += count
        await world.set_policies(dispatch_rate_messages=100_000)
        await world.pass_s(60)
        subscription = (await world.loaded()).subscriptions.table["s"]
        assert producer.stored() == sent
        assert subscription.next_due() is None, "everything is with a consumer"
        assert sum(map(subscription.unacked_of, subscription.consumers)) > 0
        await world.pass_s(60)
        assert world.service.memory_limiter.egress.used_bytes == 0

    in_virtual_time(tmp_path, work)
