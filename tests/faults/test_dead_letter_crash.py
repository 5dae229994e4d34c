"""kill -9 of a broker that moves dead letters, again and again: each message is in the target exactly once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
    TOPICS_CREATE,
    TOPICS_STATS,
)
from messaging.adminrpc.subscriptions import DeadLetterPolicySet, SubscriptionCreate, SubscriptionRef
from messaging.adminrpc.topics import StatsAsked, TopicCreate
from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks.real_broker import RealBroker
from tests.support.clients.consuming import id_of, texts
from tests.support.clients.raw_client import Closed, RawClient, send_frame

TOPIC = "persistent://public/default/rejected"
TARGET = f"{TOPIC}-s-DLQ"
MESSAGES, KILLS = 200, 3  # messages before each kill


async def connected(broker: RealBroker) -> RawClient:
    client = await RawClient.open(broker.address[1])
    await client.connect(None)
    return client


async def reject_everything(broker: RealBroker) -> None:
    """Until the broker is gone."""
    client = await connected(broker)
    try:
        await client.subscribe(TOPIC, permits=50)
        while True:
            frame = await client.next(timeout_s=60)
            if frame.name == "MESSAGE":
                client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(frame)])
                client.say(pb.Command.FLOW, consumer_id=1, message_permits=1)
    except (Closed, ConnectionError):
        await client.close()


async def publish(broker: RealBroker, first: int) -> None:
    client = await connected(broker)
    await client.producer(TOPIC)
    client.write(*(send_frame(number, b"%d" % number) for number in range(first, first + MESSAGES)))
    for _ in range(MESSAGES):
        await client.expect("SEND_RECEIPT")
    await client.close()


async def until(broker: RealBroker, goal: int) -> None:
    """Until no more messages than `goal` are to be moved. Asks from a thread of its own, which closes its connection."""

    def watch() -> None:
        while waiting(broker) > goal:
            pass
        broker.rpc.close()

    await asyncio.to_thread(watch)


def waiting(broker: RealBroker) -> int:
    """Messages that are not moved yet."""
    return int(broker.rpc.call(TOPICS_STATS, StatsAsked(topic=TOPIC)).stats["subscriptions"]["s"]["msgBacklog"])


async def test_each_dead_letter_is_in_the_target_once(tmp_path: Path) -> None:
    chance = random.Random(7)
    broker = RealBroker(tmp_path)
    try:
        broker.rpc.call(TOPICS_CREATE, TopicCreate(topic=TOPIC))
        broker.rpc.call(SUBSCRIPTIONS_CREATE, SubscriptionCreate(topic=TOPIC, subscription="s", ledger_id=-1, entry_id=-1))
        policy = DeadLetterPolicySet(
            topic=TOPIC, subscription="s", max_redeliver_count=0, initial_subscription="graves", owner="admin"
        )
        broker.rpc.call(SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY, policy)
        for kill in range(KILLS):
            await publish(broker, kill * MESSAGES)
            rejecting = asyncio.create_task(reject_everything(broker))
            await until(broker, chance.randint(1, MESSAGES - 1))
            broker.kill()
            await rejecting
            broker = RealBroker(tmp_path)
        rejecting = asyncio.create_task(reject_everything(broker))
        await until(broker, 0)
        reader = await connected(broker)
        fields = {"durable": False, "sub_type": pb.Subscribe.Exclusive, "initial_position": pb.Subscribe.Earliest}
        await reader.subscribe(TARGET, "reader", permits=2 * KILLS * MESSAGES, **fields)
        payloads = texts(await reader.messages(KILLS * MESSAGES))
        assert await reader.quiet() == []
        assert sorted(map(int, payloads)) == list(range(KILLS * MESSAGES))
        state = broker.rpc.call(SUBSCRIPTIONS_DEAD_LETTER_POLICY, SubscriptionRef(topic=TOPIC, subscription="s"))
        assert (state.waiting_entries, state.last_error) == (0, "")
        await reader.close()
        broker.kill()
        await rejecting
    finally:
        broker.close()
