"""Something of ours raises while a subscription is sent messages: nothing is forgotten, and it is tried again, not in a loop."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.backlog.plan import BacklogPlan
from messaging.broker.core.delayed.delayed_entries import DelayedEntries
from messaging.broker.core.delayed.due_ahead import DueAhead
from messaging.broker.core.diagnosis.explain import Reason, explain
from messaging.broker.core.dispatch.holding import HoldingDispatch
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.dead_letters.parts import DeadLetterParts
from messaging.broker.runtime.topics.backlog import reader as backlog_reader
from messaging.broker.runtime.topics.delayed import delivery as delayed_delivery
from messaging.broker.runtime.topics.dispatch import retries as dispatch_retries
from messaging.broker.runtime.wire.sinks import MessageSender
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.consuming import TOPIC, filled, id_of, texts
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.dead_letters import dead_letters, letters_of, moved, rejected, set_policy
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TYPES = [pb.Subscribe.Exclusive, pb.Subscribe.Shared, pb.Subscribe.Failover, pb.Subscribe.Key_Shared]
STEPS = [(Subscription, "can_dispatch"), (Subscription, "next_due"), (Subscription, "assign"), (MessageSender, "deliver")]


class Failing:
    """Raises in a method instead of doing what it does: `left` times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, times: int) -> None:
        self.left, self.raised = times, 0
        original = getattr(owner, name)

        def failing(*arguments: Any, **named: Any) -> Any:
            if self.left:
                self.left -= 1
                self.raised += 1
                raise RuntimeError(f"no {name}")
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, failing)


async def consuming(world: BrokerWorld, kind: Any) -> RawClient:
    consumer = await world.connected("reader")
    await consumer.subscribe(TOPIC, permits=100, sub_type=kind)
    if kind == pb.Subscribe.Failover:
        await consumer.expect("ACTIVE_CONSUMER_CHANGE")
    return consumer


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("owner", "name"), STEPS)
async def test_what_raises_is_tried_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, kind: Any
) -> None:
    producer = await filled(world, 0)
    consumer = await consuming(world, kind)
    failing = Failing(monkeypatch, owner, name, 3)
    monkeypatch.setattr(dispatch_retries, "RETRY_S", 0.001)
    producer.write(*(send_frame(number, b"%d" % number) for number in range(20)))
    assert texts(await consumer.messages(20)) == [b"%d" % number for number in range(20)]
    assert await consumer.quiet() == []
    assert failing.raised == 3 and world.service.topics.services.loops.dispatching.failures >= 3
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    assert [one.permits for one in subscription.consumers] == [80]


async def test_what_always_raises_is_shown_and_not_tried_in_a_loop(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(world, 3)
    failing = Failing(monkeypatch, Subscription, "assign", 1_000)
    monkeypatch.setattr(dispatch_retries, "RETRY_S", 60.0)
    consumer = await consuming(world, pb.Subscribe.Shared)
    await eventually(lambda: failing.raised == 1)
    for _ in range(10):
        consumer.say(C.FLOW, consumer_id=1, message_permits=1)
    assert await consumer.quiet() == []
    topic = world.service.topics.loaded[TOPIC]
    subscription = topic.subscriptions.table["s"]
    (found,) = explain(subscription, topic.consumers.delivery_state(subscription))
    assert found.reason is Reason.FAILED and "failed 1 times, the last time with RuntimeError: no assign" in found.sentence
    assert failing.raised == 1


async def test_a_rejection_that_raises_is_done_all_the_same(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the consumer held is with nobody, and comes again; its connection stays."""
    await filled(world, 3)
    consumer = await consuming(world, pb.Subscribe.Shared)
    ids = [id_of(one) for one in await consumer.messages(3)]
    failing = Failing(monkeypatch, HoldingDispatch, "_give_back", 1)
    consumer.say(C.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
    assert sorted(texts(await consumer.messages(3))) == [b"0", b"1", b"2"]
    assert failing.raised == 1


@pytest.mark.parametrize(("owner", "name"), [(DelayedEntries, "release"), (DueAhead, "forget")])
async def test_a_delayed_message_comes_though_its_release_raised(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """It has left the index, and its subscription was not told; or nobody has set the timer again."""
    clock = Clock(1_700_000_000_000)
    give(world.service, clock)
    world.service.sweep_memory()
    producer = await filled(world, 0)
    consumer = await consuming(world, pb.Subscribe.Shared)
    producer.write(delayed_frame(0, b"late", clock() + 60_000), send_frame(1, b"now"))
    assert texts(await consumer.messages(1)) == [b"now"]
    monkeypatch.setattr(delayed_delivery, "RETRY_S", 0.001)
    monkeypatch.setattr(dispatch_retries, "RETRY_S", 0.001)
    failing = Failing(monkeypatch, owner, name, 1)
    clock.pass_(61_000)
    world.service.sweep_memory()
    assert texts(await consumer.messages(1)) == [b"late"]
    await eventually(lambda: failing.raised == 1)
    assert await consumer.quiet() == []


@pytest.mark.parametrize("name", ["arrived", "find"])
async def test_what_raises_when_a_read_has_come_is_tried_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await filled(world, 50)
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    monkeypatch.setattr(backlog_reader, "READ_RETRY_S", 0.001)
    monkeypatch.setattr(dispatch_retries, "RETRY_S", 0.001)
    failing = Failing(monkeypatch, BacklogPlan, name, 1)
    consumer = await consuming(world, pb.Subscribe.Exclusive)
    assert texts(await consumer.messages(50)) == [b"%d" % number for number in range(50)]
    assert failing.raised == 1


async def test_a_move_of_dead_letters_that_raises_is_tried_again(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(world, 3)
    reader = await consuming(world, pb.Subscribe.Shared)
    await set_policy(world, max_redeliver_count=0)
    failing = Failing(monkeypatch, DeadLetterParts, "append", 1)
    await rejected(reader, 3)
    await eventually(lambda: failing.raised == 1)
    await eventually(lambda: not letters_of(world).moving)
    clock = Clock(world.service.topics.services.clock_ms() + 3_600_000)
    give(world.service, clock)
    world.service.dead_letters.retry()
    await moved(world, 3)
    assert sorted(texts(await dead_letters(world, 3))) == [b"0", b"1", b"2"]
