"""Whatever is done to a subscription through its topic is dispatched: nobody who calls has to ask for that."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from unittest import mock

import pytest

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.ack_validation import MessageAck
from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.dispatch.chunk_sets import ChunkSets
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.subscriptions.acknowledgements import Acknowledgements
from messaging.broker.runtime.topics.subscriptions.consumers import TopicConsumers
from messaging.errors import NotReady
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld
from tests.support.worlds.subscription_world import Sink

NAME = parse_topic("persistent://acme/orders/t")
UNACKED_MAX = 2
# They dispatch nothing themselves, or are several of `expire_up_to`; who comes and leaves is tested elsewhere.
NO_EFFECTS = {"attach", "detach", "disconnect", "close", "delivery_state", "expire_each_up_to"}


@dataclass
class Held:
    """A Shared consumer that was sent as many of six messages as it may hold, or as it has permits for."""

    topic: PersistentTopic
    subscription: Subscription
    consumer: Consumer
    sink: Sink

    @classmethod
    async def attach(cls, world: BrokerWorld, permits: int) -> Held:
        client = await world.connected("owner")
        await client.producer(str(NAME))
        for index in range(6):
            client.write(send_frame(index, b"x"))
            await client.expect("SEND_RECEIPT")
        topic = await world.service.topics.get_persistent(NAME, create=False)
        subscription = await topic.subscriptions.create("s", EARLIEST)
        sink = Sink()
        consumer = Consumer(1, "c", sink)
        topic.consumers.attach(subscription, consumer, SubscriptionType.SHARED)
        topic.consumers.flow(subscription, consumer, permits)
        held = cls(topic, subscription, consumer, sink)
        await held.was_sent(UNACKED_MAX)
        return held

    async def was_sent(self, count: int) -> None:
        await eventually(lambda: len(self.sink.received) >= count)
        assert len(self.sink.received) == count

    def at(self, entry_id: int) -> Position:
        return Position(self.topic.ledger_list.last.ledger_id, entry_id)


def ignored(error: Exception | None) -> None: ...


def acknowledge(held: Held) -> None:
    held.topic.acknowledgements.acknowledge(held.subscription, held.consumer, held.at(0).ledger_id, [0])


def acknowledge_each(held: Held) -> None:
    assert held.topic.acknowledgements.acknowledge_each(held.subscription, held.consumer, [MessageAck(held.at(0))], ignored) is None


def acknowledge_up_to(held: Held) -> None:
    assert held.topic.acknowledgements.acknowledge_up_to(held.subscription, held.consumer, MessageAck(held.at(0)), ignored) is None


def redeliver(held: Held) -> None:
    held.topic.acknowledgements.redeliver(held.subscription, held.consumer, [held.at(0)])


def skip_to(held: Held) -> Awaitable[None]:
    return held.topic.acknowledgements.skip_to(held.subscription, held.at(0))


def expire_up_to(held: Held) -> Awaitable[int]:
    return held.topic.acknowledgements.expire_up_to(held.subscription, held.at(0))


def flow(held: Held) -> None:
    held.topic.consumers.flow(held.subscription, held.consumer, 1)


def return_permits(held: Held) -> None:
    held.topic.consumers.return_permits(held.subscription, held.consumer, 1)


def policies_changed(held: Held) -> None:
    with mock.patch.object(held.topic.services.policies, "value", lambda policy, name: UNACKED_MAX + 1):
        held.topic.subscriptions.policies_changed()


def follow_dead_letters(held: Held) -> None:
    """The policy is removed: what waited is sent again."""
    redeliveries = held.subscription.state.redeliveries
    redeliveries.limit_counts(0)
    held.topic.acknowledgements.redeliver(held.subscription, held.consumer, [held.at(0)])
    held.topic.consumers.follow_dead_letters(held.subscription)


def acknowledge_entries(held: Held) -> Awaitable[None]:
    return held.topic.acknowledgements.acknowledge_entries(held.subscription, [held.at(0)], DeliveryEvent.DEAD_LETTERED)


async def expire_chunks(held: Held) -> None:
    """One of a message that nobody completed."""
    chunks = held.subscription.state.chunks = ChunkSets(lambda ledger_id, entries: None)
    chunks.sent(held.consumer, held.at(0), Chunk(b"m", 0, 2), 0, counted=True)
    chunks.newest_ms = 1_000
    assert await held.topic.acknowledgements.expire_chunks(held.subscription, 1) == 1


def resume(held: Held) -> None:
    held.subscription.recovering = True
    held.consumer.flow(1, 0)
    held.topic.consumers.resume(held.subscription)


def wake(held: Held) -> None:
    held.sink.writable = True
    held.topic.consumers.wake(held.subscription, held.consumer)


Effect = Callable[[Held], Awaitable[object] | None]
AT_ITS_LIMIT: list[Effect] = [
    acknowledge,
    acknowledge_each,
    acknowledge_up_to,
    redeliver,
    skip_to,
    expire_up_to,
    policies_changed,
    follow_dead_letters,
    acknowledge_entries,
    expire_chunks,
]
WITHOUT_PERMITS: list[Effect] = [flow, return_permits, resume]
NOT_WRITABLE: list[Effect] = [wake]


async def done(effect: Effect, held: Held) -> None:
    result = effect(held)
    if isinstance(result, Coroutine):
        await result


@pytest.mark.parametrize("effect", AT_ITS_LIMIT)
async def test_a_consumer_at_its_limit_is_sent_more(make_world: MakeWorld, effect: Effect) -> None:
    held = await Held.attach(await make_world(consumer_unacked_max=UNACKED_MAX), permits=100)
    await done(effect, held)
    await held.was_sent(UNACKED_MAX + 1)


@pytest.mark.parametrize("effect", WITHOUT_PERMITS)
async def test_a_consumer_that_gains_permits_is_sent_more(world: BrokerWorld, effect: Effect) -> None:
    held = await Held.attach(world, permits=UNACKED_MAX)
    await done(effect, held)
    await held.was_sent(UNACKED_MAX + 1)


@pytest.mark.parametrize("effect", NOT_WRITABLE)
async def test_a_consumer_that_can_be_written_again_is_sent_more(world: BrokerWorld, effect: Effect) -> None:
    held = await Held.attach(world, permits=UNACKED_MAX)
    held.sink.writable = False
    held.topic.consumers.flow(held.subscription, held.consumer, 1)
    await done(effect, held)
    await held.was_sent(UNACKED_MAX + 1)


def test_every_effect_is_in_a_table() -> None:
    members = [*inspect.getmembers(TopicConsumers), *inspect.getmembers(Acknowledgements)]
    public = {name for name, _ in members if not name.startswith("_")}
    of_all_subscriptions = {"policies_changed"}
    listed = {effect.__name__ for effect in (*AT_ITS_LIMIT, *WITHOUT_PERMITS, *NOT_WRITABLE)}
    assert public - NO_EFFECTS == listed - of_all_subscriptions


async def test_what_is_gone_is_not_skipped_in(world: BrokerWorld) -> None:
    held = await Held.attach(world, permits=UNACKED_MAX)
    await world.service.topics.unload(NAME)
    with pytest.raises(NotReady):
        await skip_to(held)
