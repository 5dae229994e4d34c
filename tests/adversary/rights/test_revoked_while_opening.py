"""A key that is revoked or deleted while a session is being opened with it, at each step of opening.

Read: a WebSocket whose key was revoked between authentication and registration stayed open, because the revocation ended what was
registered, and opening looked at the key no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from messaging.broker.core.control.feed_plan import FeedPlan
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.feed.follower import FeedFollower
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.producer import LocalProducer
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from messaging.errors import MagnetarError
from tests.support.storage.memory_ledgers import MemoryMetaStore
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/new"
STEPS_MAX = 200  # far more than opening takes
PAUSE_STEPS = 3  # of the loop, before and after each thing that opening waits for
WAITED_FOR = [
    (Broker, "authorize"),
    (Broker, "open_topic"),
    (MemoryMetaStore, "create_subscription"),
    (TopicSubscriptions, "wait_until_unchanged"),
]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores in memory answer at once; here everything takes steps, in which something else may happen."""

    def paused(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(*args: Any, **options: Any) -> Any:
            for _ in range(PAUSE_STEPS):
                await asyncio.sleep(0)
            result = await work(*args, **options)
            for _ in range(PAUSE_STEPS):
                await asyncio.sleep(0)
            return result

        return run

    async def at_once(feed: FeedFollower, plan: FeedPlan) -> None: ...

    monkeypatch.setattr(FeedFollower, "save", at_once)  # so that the revocation is over before opening goes on
    for owner, name in WAITED_FOR:
        monkeypatch.setattr(owner, name, paused(getattr(owner, name)))


class Ends:
    """Where a session says that it was closed."""

    def __init__(self) -> None:
        self.errors: list[MagnetarError | None] = []

    def deliver(self, messages: object) -> None: ...

    def closed(self, error: MagnetarError | None) -> None:
        self.errors.append(error)

    def end_of_topic(self) -> None: ...


async def producer(world: BrokerWorld, ends: Ends) -> LocalProducer:
    principal = await world.service.authenticate(world.token("writer"), local=True)
    opened = await world.sessions.open_producer(principal, TOPIC, None, ends)
    assert isinstance(opened, LocalProducer)
    return opened


async def consumer(world: BrokerWorld, ends: Ends) -> LocalConsumer:
    principal = await world.service.authenticate(world.token("reader"), local=True)
    return await world.sessions.open_consumer(principal, TOPIC, "s", "Shared", "earliest", True, None, ends)


async def reader(world: BrokerWorld, ends: Ends) -> LocalConsumer:
    principal = await world.service.authenticate(world.token("reader"), local=True)
    return await world.sessions.open_consumer(principal, TOPIC, "r", "Exclusive", "earliest", False, None, ends)


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("opened", [producer, consumer, reader], ids=lambda act: act.__name__)
async def test_nothing_stays_open_by_a_key_that_went_meanwhile(
    make_world: MakeWorld, opened: Callable[[BrokerWorld, Ends], Awaitable[LocalConsumer | LocalProducer]], deleted: bool
) -> None:
    world = await make_world()

    def key_states(revoked: bool) -> list[tuple[str, str, dict[str, Any] | None]]:
        gone = deleted and revoked
        return [
            ("key", key, None if gone else {"role": f"{key}@acme", "tenant": "acme", "revoked": revoked})
            for key in ("reader", "writer")
        ]

    done_before = 0
    for step in range(STEPS_MAX):
        await world.feed(*key_states(revoked=False))
        ends = Ends()
        opening = asyncio.ensure_future(opened(world, ends))
        for _ in range(step):
            await asyncio.sleep(0)
        done_before += opening.done()
        await world.feed(*key_states(revoked=True))
        try:
            session = await opening
        except MagnetarError:
            pass
        else:
            assert ends.errors and not session.open, f"open after a revocation at step {step}"
        assert not world.service.peers.sessions, step
        topic = world.service.topics.loaded.get(TOPIC)
        assert topic is None or (not len(topic.producers) and "r" not in topic.subscriptions.table), step
        if done_before == 3:
            return
    raise AssertionError(f"opening takes more than {STEPS_MAX} steps")
