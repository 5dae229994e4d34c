"""What a broker notices by itself in its topics, and tells whoever may ask."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.adminrpc.topics import LiveAsked
from messaging.broker.core.diagnosis.problems import ABANDONED_MS, Sign, signs_of_subscription
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.problems import known as known_problems
from messaging.broker.runtime.problems import topic_signs, watch
from messaging.broker.runtime.problems.known import OF_TOPIC_MAX, PROBLEMS_MAX, KnownProblems, TopicProblems
from messaging.broker.runtime.problems.tenant_counts import TenantCounts
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.problems.order import Problem
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
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
    live = await world.admin.live.live(LiveAsked(namespace="acme/orders"))
    assert [row.problem for row in live.topics] == [""]  # it is loaded by that, and looked at anew
    left_long_ago(world, world.service.topics.loaded[TOPIC])
    await world.service.problems.look()
    live = await world.admin.live.live(LiveAsked(namespace="acme/orders"))
    assert [row.problem for row in live.topics] == ["no_consumer"]


async def test_a_topic_whose_messages_nothing_keeps_is_noticed_while_somebody_publishes(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await filled(world, 2)
    await world.service.problems.look()
    (problem,) = (await asked(world)).problems
    assert (problem.kind, problem.topic, problem.subscription) == ("unread", TOPIC, "")
    policies = type(world.service.topics.loaded[TOPIC].services.policies)
    real = policies.value
    kept = {"retention_time_min": 60, "retention_size_mb": -1}
    with monkeypatch.context() as patched:
        patched.setattr(policies, "value", lambda self, policy, name: kept.get(policy, real(self, policy, name)))
        await world.service.problems.look()
    assert (await asked(world)).problems == [], "retention keeps it"
    await world.service.problems.look()
    assert (await asked(world)).problems
    await world.service.topics.loaded[TOPIC].subscriptions.create("s", EARLIEST)
    await world.service.problems.look()
    assert (await asked(world)).problems == []
    await producer.close()


async def test_nobody_is_told_of_topics_beyond_those_asked_for(world: BrokerWorld) -> None:
    await abandoned(world)
    await world.service.problems.look()
    others: list[dict[str, Any]] = [
        {"of_tenants": ["initech"]},
        {"of_tenants": []},
        {"of_tenants": [], "of_namespaces": ["acme/other", "initech/orders"]},
        {"of_tenants": [], "everywhere": True, "closed": ["acme"]},
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
    assert world.service.problems.looked_ms(["acme"]) is None and world.service.problems.looked_ms(None) is None
    await world.service.problems.look()
    assert world.service.problems.looked_ms(["acme"]) is not None and world.service.problems.looked_ms(None) is not None


@pytest.mark.parametrize("name", [TOPIC, "non-persistent://acme/orders/placed"])
async def test_subscriptions_that_are_not_durable_are_looked_at_too(world: BrokerWorld, name: str) -> None:
    """Their pages marked them as blocked, and Now did not: they were looked for under the name of a durable one."""
    client = await world.connected("owner")
    await client.subscribe(name, "reader", durable=False)
    await filled(world, 3, name)
    (subscription,) = world.service.topics.loaded[name].subscriptions.table.values()
    (consumer,) = subscription.consumers
    consumer.connected_ms = 1  # since when nothing has moved
    await world.service.problems.look()
    assert [(problem.kind, problem.subscription) for problem in (await asked(world)).problems] == [("blocked", "reader")]


async def many_abandoned(world: BrokerWorld, count: int) -> Topic:
    """A topic with that many subscriptions, each with a backlog and without a consumer for a minute."""
    await filled(world, 0)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    for index in range(count):
        await topic.subscriptions.create(f"s{index:03}", EARLIEST)
    await filled(world, 1)
    for index in range(count):
        topic.idle.left(f"s{index:03}", world.service.now_ms() - 60_000)
    return topic


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the subscriptions that were judged, in order."""
    names: list[str] = []
    judge = signs_of_subscription

    def counted(subscription: Subscription, *args: Any, **given: Any) -> list[Sign]:
        names.append(subscription.name)
        return judge(subscription, *args, **given)

    monkeypatch.setattr(topic_signs, "signs_of_subscription", counted)
    return names


async def test_a_look_stops_within_a_topic_and_goes_on_there(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, judged: list[str]
) -> None:
    await many_abandoned(world, 30)
    monkeypatch.setattr(watch, "SUBSCRIPTIONS_A_LOOK", 12)
    for total in (12, 24, 30):
        assert world.service.problems.looked_ms(["acme"]) is None
        await world.service.problems.look()
        assert len(judged) == total
    assert judged == [f"s{index:03}" for index in range(30)]
    answer = await asked(world)
    assert (len(answer.problems), answer.beyond) == (OF_TOPIC_MAX, 10)
    assert world.service.problems.looked_ms(["acme"]) is not None
    for _ in range(3):
        await world.service.problems.look()
    assert (await asked(world)).beyond == 10  # of what there is, however often it was looked at


async def test_a_tenant_with_many_subscriptions_holds_up_nobody_else(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, judged: list[str]
) -> None:
    await many_abandoned(world, 30)
    other = await world.service.topics.get(parse_topic("persistent://initech/orders/t"), create=True)
    await other.subscriptions.create("theirs", EARLIEST)
    monkeypatch.setattr(watch, "SUBSCRIPTIONS_A_LOOK", 6)
    monkeypatch.setattr(watch, "SHARE_SUBSCRIPTIONS", 3)
    await world.service.problems.look()
    assert len(judged) == 6  # a share, what is left of the look after the other tenant's turn
    assert world.service.problems.looked_ms(["initech"]) is not None
    assert world.service.problems.looked_ms(["acme"]) is None


async def test_what_is_unloaded_or_read_from_the_metadata_is_bounded_too(make_world: MakeWorld) -> None:
    before = await make_world()
    await many_abandoned(before, 25)
    await before.service.topics.unload(parse_topic(TOPIC))
    answer = await asked(before)
    assert (len(answer.problems), answer.beyond) == (OF_TOPIC_MAX, 5)
    await before.service.cursors.checkpoint()
    after = await make_world(after=before)
    await after.service.stored_problems.read()
    answer = await asked(after)
    assert (len(answer.problems), answer.beyond) == (OF_TOPIC_MAX, 5)


async def test_a_topic_that_moves_with_its_consumers_is_not_marked_while_they_come_back(world: BrokerWorld) -> None:
    """NO CONSUMER flashed for a second in lists while a bundle moved."""
    topic = await abandoned(world)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC)
    await world.service.topics.unload(parse_topic(TOPIC))
    assert topic.closed is not None
    watch = world.service.problems
    (kept,) = watch.known.of_topic(TOPIC)
    assert (await asked(world)).problems == [] and (await asked(world)).total == {} and watch.worst_of(TOPIC) == ""
    watch.put(TOPIC, "acme", [replace(kept, since_ms=world.service.now_ms() - ABANDONED_MS)])
    assert (await asked(world)).total == {"no_consumer": 1} and watch.worst_of(TOPIC) == "no_consumer"


async def test_a_topic_that_is_unloaded_during_a_look_at_it_is_left_alone(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many_abandoned(world, 5)
    monkeypatch.setattr(watch, "SUBSCRIPTIONS_A_LOOK", 2)
    await world.service.problems.look()
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    for _ in range(3):
        await world.service.problems.look()
    assert (await asked(world)).problems == []


async def test_of_single_namespaces_is_told_what_is_unknown_and_what_was_left_out(make_world: MakeWorld) -> None:
    before = await make_world()
    await abandoned(before)
    after = await make_world(after=before)
    await after.service.stored_problems.read()
    assert (await asked(after, of_tenants=[], of_namespaces=["acme/orders"])).unknown_topics == 1
    assert (await asked(after, of_tenants=[], of_namespaces=["acme/other"])).unknown_topics == 0
    after.service.problems.put(TOPIC, "acme", [problem_of(TOPIC, str(index)) for index in range(OF_TOPIC_MAX + 3)])
    assert (await asked(after, of_tenants=[], of_namespaces=["acme/orders"])).beyond == 3
    assert (await asked(after, of_tenants=[], of_namespaces=["acme/other"])).beyond == 0


async def test_the_list_of_problems_waits_for_its_turn_before_it_is_made(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = world.service.problems
    problems.put(TOPIC, "acme", [problem_of(TOPIC)])
    order: list[str] = []
    spend, of = TurnSlices.spend, problems.of

    async def counted(slices: TurnSlices, cost: int) -> None:
        order.append("spend")
        await spend(slices, cost)

    def told(tenant: str) -> list[Problem]:
        order.append("of")
        return of(tenant)

    monkeypatch.setattr(TurnSlices, "spend", counted)
    monkeypatch.setattr(problems, "of", told)
    await asked(world)
    assert order[:2] == ["spend", "of"] and order[-1] == "spend"


def problem_of(topic: str, subscription: str = "s", waiting: int = 0, tenant: str = "acme") -> Problem:
    namespace = topic.partition("://")[2].rpartition("/")[0]
    return Problem(
        kind="no_consumer",
        sentence="",
        tenant=tenant,
        namespace=namespace,
        topic=topic,
        subscription=subscription,
        waiting=waiting,
    )


def put(known: KnownProblems, topic: str, tenant: str, *problems: Problem) -> None:
    most_urgent = TopicProblems()
    for problem in problems:
        most_urgent.add(problem)
    known.put(topic, tenant, most_urgent)


def test_of_a_topic_the_most_urgent_are_kept() -> None:
    most_urgent = TopicProblems()
    for waiting in (*range(30), *range(60, 30, -1)):
        most_urgent.add(problem_of("persistent://acme/n/t", str(waiting), waiting))
    assert [problem.waiting for problem in most_urgent.problems] == list(range(60, 60 - OF_TOPIC_MAX, -1))
    assert most_urgent.left_out == 60 - OF_TOPIC_MAX


def test_a_tenant_has_a_bounded_number_of_problems_and_takes_no_room_of_others() -> None:
    known = KnownProblems()
    topics = [f"persistent://acme/n/{index}" for index in range(PROBLEMS_MAX + 1)]
    for topic in topics:
        put(known, topic, "acme", problem_of(topic, waiting=1))
    assert known.count("acme") == PROBLEMS_MAX and known.left_out("acme", None) == 1
    put(known, "persistent://initech/n/t", "initech", problem_of("persistent://initech/n/t", tenant="initech"))
    assert len(known.ranked("acme", [])) == PROBLEMS_MAX and len(known.ranked("initech", [])) == 1
    for topic in topics:
        put(known, topic, "acme")
    assert known.tenants() == {"initech"} and known.ranked("acme", []) == [] and known.left_out("acme", None) == 0


def test_where_there_is_no_room_the_least_urgent_gives_way_and_is_counted_once() -> None:
    known = KnownProblems()
    topics = [f"persistent://acme/n{index % 2}/{index}" for index in range(PROBLEMS_MAX + 50)]
    for _ in range(3):  # however often they are looked at
        for index, topic in enumerate(topics):
            put(known, topic, "acme", problem_of(topic, waiting=index))
    assert [problem.waiting for problem in known.ranked("acme", [])] == list(range(PROBLEMS_MAX + 49, 49, -1))
    assert known.left_out("acme", None) == 50
    assert known.left_out("acme", ["acme/n0"]) == 25 and known.left_out("acme", ["acme/other"]) == 0
    known.forget(topics[-1], "acme")
    put(known, topics[0], "acme", problem_of(topics[0], waiting=0))
    assert known.count("acme") == PROBLEMS_MAX and known.left_out("acme", None) == 49


def test_all_tenants_together_have_a_bounded_number_of_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_problems, "PLATFORM_PROBLEMS_MAX", 10)
    known = KnownProblems()

    def fill(tenant: str, count: int, waiting: int) -> None:
        for index in range(count):
            topic = f"persistent://{tenant}/n/{index}"
            put(known, topic, tenant, problem_of(topic, waiting=waiting + index, tenant=tenant))

    fill("acme", 12, waiting=100)
    assert (known.count("acme"), known.left_out("acme", None)) == (10, 2)
    fill("initech", 12, waiting=1)  # whose problems are less urgent, and are told all the same
    assert (known.count("acme"), known.count("initech")) == (5, 5)
    assert [problem.waiting for problem in known.ranked("acme", [])] == [111, 110, 109, 108, 107]
    assert (known.left_out("acme", None), known.left_out("initech", None)) == (7, 7)


@hypothesis.given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([1, -1])), max_size=60))
def test_counts_of_tenants_tell_who_has_most(changes: list[tuple[str, int]]) -> None:
    counts, plain = TenantCounts(), Counter[str]()
    for tenant, change in changes:
        if plain[tenant] + change >= 0:
            counts.add(tenant, change)
            plain[tenant] += change
        most = max(plain.values(), default=0)
        tenant_with_most, largest = counts.largest()
        assert largest == most and counts.total == sum(plain.values()) and (not most or plain[tenant_with_most] == most)


async def test_schema_refusals_mark_the_topic_and_go_with_it(world: BrokerWorld) -> None:
    await filled(world, 0)
    world.service.problems.refusals.judged(parse_topic(TOPIC), "producer app@acme 10.0.0.1", "no")
    live = await world.admin.live.live(LiveAsked(namespace="acme/orders"))
    assert [row.problem for row in live.topics] == ["schema_refused"]
    assert (await asked(world)).by_namespace == {"acme/orders": "schema_refused"}
    await world.service.topics.delete(parse_topic(TOPIC), force=True)
    assert (await asked(world)).problems == []


async def test_schema_refusals_go_with_their_tenant_as_the_broker_learns_of_it(world: BrokerWorld) -> None:
    view, problems = world.service.access.view, world.service.problems
    problems.refusals.judged(parse_topic("persistent://acme/orders/secret"), "producer app@acme 10.0.0.1", "no")
    assert len((await asked(world)).problems) == 1
    tenant = view.tenants["acme"]
    view.tenants["acme"] = tenant | {"uid": "another"}
    assert (await asked(world)).problems == [] and (await asked(world, everywhere=True)).problems == []
    view.tenants["acme"] = tenant
    assert (await asked(world)).problems == []
    assert problems.refusals.follow in world.service.access.feed.on_change


def test_more_consumers_are_no_advice_for_what_a_rate_limit_holds_back() -> None:
    """Beside DELIVERY THROTTLED the same subscription was said to need more consumers."""
    fields = {"sentence": "", "remedy": "add consumers", "tenant": "acme", "namespace": "acme/orders", "topic": TOPIC}
    held, slow, other = (
        Problem(kind=kind, subscription=subscription, **fields)  # type: ignore[arg-type]
        for kind, subscription in (("dispatch_throttled", "s"), ("falling_behind", "s"), ("falling_behind", "other"))
    )
    remedies = [problem.remedy for problem in topic_signs.with_causes([slow, other, held])]
    assert remedies == [topic_signs.AT_LIMIT, "add consumers", "add consumers"]
