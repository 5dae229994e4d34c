"""What tests of dead-letter policies share."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer, DeadLetterPolicySet, SubscriptionRef
from messaging.broker.core.dead_letters.dead_entries import DeadLetters
from messaging.broker.core.subscription import Subscription
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled, id_of
from tests.support.clients.raw_client import RawClient, Received
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TARGET = f"{TOPIC}-s-DLQ"


async def set_policy(world: BrokerWorld, *, topic: str = TOPIC, subscription: str = "s", **fields: Any) -> DeadLetterPolicyAnswer:
    values = {"max_redeliver_count": 1, "owner": "owner@acme", "initial_subscription": "dead", **fields}
    return await world.admin.dead_letters.set(DeadLetterPolicySet(topic=topic, subscription=subscription, **values))


async def policy_of(world: BrokerWorld, subscription: str = "s") -> DeadLetterPolicyAnswer:
    return await world.admin.dead_letters.get(SubscriptionRef(topic=TOPIC, subscription=subscription))


def subscription_of(world: BrokerWorld, topic: str = TOPIC, name: str = "s") -> Subscription:
    return world.service.topics.loaded[topic].subscriptions.table[name]


def letters_of(world: BrokerWorld) -> DeadLetters:
    letters = subscription_of(world).dead_letters
    assert letters is not None
    return letters


def nack(client: RawClient, *messages: Received) -> None:
    client.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=[id_of(message) for message in messages])


async def rejected(client: RawClient, times: int, count: int = 1) -> None:
    """A consumer rejects the same `count` messages so many times."""
    for _ in range(times):
        nack(client, *(await client.messages(count)))


async def moved(world: BrokerWorld, messages: int) -> None:
    """Waits until so many messages were moved since the policy was set, or the topic loaded."""

    def done() -> bool:
        letters = subscription_of(world).dead_letters
        return letters is not None and letters.moved_messages == messages and not letters.moving

    await eventually(done)


async def dead_letters(world: BrokerWorld, count: int, topic: str = TARGET) -> list[Received]:
    """All messages of the target, which are so many."""
    reader = await world.connected("superuser")
    await reader.subscribe(
        topic, f"reader-{len(world.clients)}", durable=False, permits=1_000, sub_type=pb.Subscribe.Exclusive, initial_position=1
    )
    messages = await reader.messages(count)
    assert await reader.quiet() == []
    return messages


def metadata_of(message: Received) -> pb.Metadata:
    return frames.parse_stored(message.payload).metadata


def properties_of(message: Received) -> dict[str, str]:
    return {pair.key: pair.value for pair in metadata_of(message).properties}


async def consumer(world: BrokerWorld, messages: int = 3, **policy: Any) -> RawClient:
    """A consumer of a Shared subscription with a policy."""
    await filled(world, messages)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=1_000)
    await set_policy(world, **policy)
    return client
