"""Every topic follows the policies of now, whatever happens to another one, or to itself, while they change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import TopicName, parse_topic
from tests.support.policies import set_policies
from tests.support.raising import boom
from tests.support.worlds.broker_world import BrokerWorld


def name_of(local: str) -> TopicName:
    return parse_topic(f"persistent://acme/orders/{local}")


def limit_of(topic: Topic) -> int | None:
    return None if topic.publisher.quota is None else topic.publisher.quota.quota.bytes_max


async def test_a_topic_that_raises_keeps_neither_others_nor_the_feed_from_following(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising, *others = [await world.service.topics.get(name_of(local), create=True) for local in "abc"]
    original = PersistentTopic.policies_changed
    monkeypatch.setattr(PersistentTopic, "policies_changed", lambda topic: boom() if topic is raising else original(topic))
    for limit in (1000, 2000):
        await set_policies(world, backlog_quota_bytes=limit)
        assert [limit_of(topic) for topic in others] == [limit, limit]
    assert world.service.topics.services.loops.dispatching.failures == 2


async def test_a_topic_follows_policies_that_change_while_it_is_opened(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    name, topics = name_of("a"), world.service.topics
    await topics.get(name, create=True, writable=True)
    await topics.unload(name)
    asked, answer = asyncio.Event(), asyncio.Event()
    original = world.meta.subscriptions

    async def slow(topic: str) -> Any:
        asked.set()
        await answer.wait()
        return await original(topic)

    monkeypatch.setattr(world.meta, "subscriptions", slow)
    opening = asyncio.ensure_future(topics.get(name, create=False))
    await asked.wait()
    await set_policies(world, backlog_quota_bytes=1234)
    answer.set()
    assert limit_of(await opening) == 1234


async def test_a_setting_that_changes_is_followed_by_every_loaded_topic_on_which_nothing_is_set(world: BrokerWorld) -> None:
    plain, own = [await world.service.topics.get(name_of(local), create=True) for local in "ab"]
    await world.feed(("topic", str(own.name), {"policies": {"publish_rate_messages": 7}}))
    await world.feed(("broker", "all", {"settings": {"max_publish_rate_per_topic_in_messages": 5}}))
    await world.service.policy_changes.wait_until_told()
    rate = world.service.access.view.policy
    assert [rate("publish_rate_messages", "acme/orders", topic.name).value for topic in (plain, own)] == [5, 7]
    assert plain.publisher.limits is not None
    await world.feed(("broker", "all", None))
    await world.service.policy_changes.wait_until_told()
    assert plain.publisher.limits is None
