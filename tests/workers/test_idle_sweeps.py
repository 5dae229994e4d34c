"""Sweeps over topics that have nothing to do load none of them."""

from __future__ import annotations

import os
import time

import pytest

from messaging.storage.meta_store import TopicRecord
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers.environment import Environment
from workers.runs import run_recorded
from workers.schedule import COMPACT_TOPICS, EXPIRE_MESSAGES
from workers.tasks.compaction import compact_topics
from workers.tasks.expiry import expire_messages

pytestmark = pytest.mark.django_db
TOPICS = int(os.environ.get("IDLE_TOPICS", "2000"))  # 100,000 for the figure of ADR 9


def stored(broker: WorkerBroker, count: int) -> None:
    """Topics that are known and not loaded; every tenth was loaded, holds a message that nobody has read, and has time left."""
    real = broker.real

    async def make() -> None:
        fence = real.service.storage.fence
        for number in range(count):
            await real.meta.cas_topic(fence, TopicRecord(f"persistent://acme/kept/{number:06}", created_ms=1))

    real.run(make())
    for number in range(0, min(count, 200), 10):
        name = f"persistent://acme/kept/{number:06}"
        real.add(name, "s")
        real.publish(name, b"waits")
        real.unload(name)


def test_sweeps_over_idle_topics_load_none(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    stored(broker, TOPICS)
    loaded: list[str] = []
    broker.real.service.topics.on_loaded.append(lambda topic: loaded.append(topic.text))
    for number in range(3):
        began = time.perf_counter()
        swept = run_recorded(environment, EXPIRE_MESSAGES, f"sweep-{number}", expire_messages)
        assert (swept["outcome"], swept["topics"], swept["failures"]) == ("succeeded", TOPICS, 0)
        assert run_recorded(environment, COMPACT_TOPICS, f"compact-{number}", compact_topics)["compacted"] == 0
        print(f"{TOPICS} topics: {time.perf_counter() - began:.2f} s")
        clock.advance(60)
    assert loaded == []


def test_a_sweep_loads_the_topic_that_has_something_to_do_and_no_other(environment: Environment, broker: WorkerBroker) -> None:
    stored(broker, 100)
    broker.add("persistent://acme/orders/due", [61])
    broker.real.unload("persistent://acme/orders/due")
    loaded: list[str] = []
    broker.real.service.topics.on_loaded.append(lambda topic: loaded.append(topic.text))
    assert run_recorded(environment, EXPIRE_MESSAGES, "sweep", expire_messages)["expired_entries"] == 1
    assert loaded == ["persistent://acme/orders/due"]
