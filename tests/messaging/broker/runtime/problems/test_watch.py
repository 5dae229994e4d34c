"""What a broker notices by itself in its topics, and tells whoever may ask."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.adminrpc.topics import TopicsList
from messaging.broker.core.diagnosis.problems import ABANDONED_MS
from messaging.broker.runtime.problems import watch
from messaging.broker.runtime.problems.known import PROBLEMS_MAX, KnownProblems
from messaging.broker.runtime.problems.refusals import KEPT_MS, TOPICS_MAX, SchemaRefusals
from messaging.broker.runtime.topics.topic import Topic
from messaging.problems.order import Problem
from messaging.protocol.names import parse_topic
from tests.support.clients.consuming import TOPIC, filled
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


async def asked(world: BrokerWorld, **given: Any) -> ProblemsFound:
    return await world.admin.problems.list_problems(ProblemsList(**({"of_tenants": ["acme"]} | given)))


async def abandoned(world: BrokerWorld, count: int = 3) -> Topic:
    """A subscription whose consumer left a minute ago."""
    producer = await filled(world, 0)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await consumer.close()
    await eventually(lambda: not topic.subscriptions.table["s"].consumers)
    await producer.close()
    await eventually(lambda: not len(topic.producers))
    await (await filled(world, count)).close()
    await eventually(lambda: not len(topic.producers))
    left_long_ago(world, topic)
    return topic


def left_long_ago(world: BrokerWorld, topic: Topic) -> None:
    topic.idle.left("s", world.service.now_ms() - 60_000)


async def test_a_backlog_that_nobody_consumes_is_noticed_and_stays_known_when_its_topic_is_unloaded(world: BrokerWorld) -> None:
    topic = await abandoned(world)
    since_ms = topic.idle.subscription_ms("s")
    assert (await asked(world)).problems == []
    await world.service.problems.look()
    answer = await asked(world)
    (problem,) = answer.problems
    assert (problem.kind, problem.topic, problem.subscription, problem.waiting) == ("no_consumer", TOPIC, "s", 3)
    assert problem.since_ms == since_ms and problem.namespace == "acme/orders"
    assert (answer.total, answer.by_namespace) == ({"no_consumer": 1}, {"acme/orders": "no_consumer"})
    assert answer.looked_ms is None  # what nobody has used since the start is to be read, too
    await world.service.stored_problems.read()
    assert (await asked(world)).looked_ms is not None
    await world.service.topics.unload(parse_topic(TOPIC))
    (resting,) = (await asked(world)).problems
    assert (resting.kind, resting.waiting, resting.since_ms) == ("no_consumer", 3, since_ms)
    live = await world.admin.namespaces.live(TopicsList(namespace="acme/orders"))
    assert [row.problem for row in live.topics] == [""]  # it is loaded by that, and looked at anew
    left_long_ago(world, world.service.topics.loaded[TOPIC])
    await world.service.problems.look()
    live = await world.admin.namespaces.live(TopicsList(namespace="acme/orders"))
    assert [row.problem for row in live.topics] == ["no_consumer"]


async def test_nobody_is_told_of_topics_beyond_those_asked_for(world: BrokerWorld) -> None:
    await abandoned(world)
    await world.service.problems.look()
    others: list[dict[str, Any]] = [
        {"of_tenants": ["initech"]},
        {"of_tenants": []},
        {"of_tenants": [], "of_namespaces": ["acme/other", "initech/orders"]},
    ]
    for given in others:
        answer = await asked(world, **given)
        assert (answer.problems, answer.total, answer.by_namespace, answer.unknown_topics) == ([], {}, {}, 0)
    theirs: list[dict[str, Any]] = [{}, {"everywhere": True}, {"of_tenants": [], "of_namespaces": ["acme/orders"]}]
    for given in theirs:
        assert len((await asked(world, **given)).problems) == 1


async def test_what_is_fixed_or_deleted_is_gone(world: BrokerWorld) -> None:
    topic = await abandoned(world)
    await world.service.problems.look()
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC)
    await world.service.problems.look()
    assert (await asked(world)).problems == []
    await consumer.close()
    await eventually(lambda: not topic.subscriptions.table["s"].consumers)
    topic.idle.left("s", world.service.now_ms() - ABANDONED_MS)
    await world.service.problems.look()
    assert len((await asked(world)).problems) == 1
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    assert (await asked(world)).problems == []


async def test_a_backlog_of_before_the_start_is_read_from_the_metadata_without_loading_its_topic(make_world: MakeWorld) -> None:
    before = await make_world()
    await abandoned(before)
    await before.service.topics.unload(parse_topic(TOPIC))
    await before.service.cursors.checkpoint()
    after = await make_world(after=before)
    await after.service.stored_problems.read()
    answer = await asked(after)
    assert not after.service.topics.loaded
    assert answer.unknown_topics == 0
    (problem,) = answer.problems
    assert (problem.kind, problem.subscription) == ("no_consumer", "s") and "how many is not known" in problem.sentence
    assert problem.waiting == 0
    left_long_ago(after, await after.service.topics.get(parse_topic(TOPIC), create=False))
    assert (await asked(after)).problems == []  # until it is looked at
    await after.service.problems.look()
    assert [problem.waiting for problem in (await asked(after)).problems] == [3]


async def test_what_a_crash_left_is_said_to_be_unknown(make_world: MakeWorld) -> None:
    before = await make_world()
    await abandoned(before)
    after = await make_world(after=before)
    await after.service.stored_problems.read()
    answer = await asked(after)
    assert (answer.problems, answer.unknown_topics) == ([], 1)
    assert (await asked(after, of_tenants=["initech"])).unknown_topics == 0
    await after.service.topics.get(parse_topic(TOPIC), create=False)
    assert (await asked(after)).unknown_topics == 0


async def test_a_look_takes_a_part_of_the_topics_and_goes_on_where_it_ended(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await filled(world, 0, f"persistent://acme/orders/{name}")
    monkeypatch.setattr(watch, "TOPICS_A_LOOK", 2)
    await world.service.problems.look()
    assert world.service.problems.looked_ms is None
    await world.service.problems.look()
    assert world.service.problems.looked_ms is not None


def problem_of(topic: str, subscription: str = "s") -> Problem:
    return Problem(kind="no_consumer", sentence="", tenant="acme", topic=topic, subscription=subscription)


def test_a_tenant_has_a_bounded_number_of_problems_and_takes_no_room_of_others() -> None:
    known = KnownProblems()
    topics = [f"persistent://acme/n/{index}" for index in range(PROBLEMS_MAX + 1)]
    assert [known.put(topic, "acme", [problem_of(topic)]) for topic in topics] == [True] * PROBLEMS_MAX + [False]
    assert known.put("persistent://initech/n/t", "initech", [problem_of("persistent://initech/n/t")])
    assert len(known.ranked("acme", [])) == PROBLEMS_MAX and len(known.ranked("initech", [])) == 1
    known.forget(topics[0], "acme")
    assert known.put(topics[-1], "acme", [problem_of(topics[-1])])
    for topic in topics:
        known.put(topic, "acme", [])
    assert known.tenants() == {"initech"} and known.ranked("acme", []) == []


def test_refusals_are_counted_by_topic_and_forgotten_after_a_while() -> None:
    now_ms = [1_000]
    refusals = SchemaRefusals(lambda: now_ms[0])
    for partition in (0, 1):
        refusals.refused(parse_topic(f"persistent://acme/n/t-partition-{partition}"), "the schema is not compatible: a is missing")
    (problem,) = refusals.of("acme")
    assert problem.topic == "persistent://acme/n/t" and problem.since_ms == 1_000
    assert problem.sentence == "2 clients were refused. The schema is not compatible: a is missing."
    for index in range(TOPICS_MAX):
        refusals.refused(parse_topic(f"persistent://acme/n/{index}"), "no")
    assert len(refusals.of("acme")) == TOPICS_MAX
    now_ms[0] += KEPT_MS
    assert refusals.of("acme") == [] and refusals.tenants() == set()
