"""Brokers that do not run, or cannot do their work, are told of to whoever runs the platform."""

from __future__ import annotations

from pathlib import Path

from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.broker.runtime.admin.merging import problems as merged
from messaging.broker.runtime.ownership.owners import SoleOwner
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.problems.broker_problems import UNREADY_MS, BrokerProblems
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from tests.support.brokers.fleet import shared_broker
from tests.support.worlds.broker_world import BrokerWorld


async def test_a_broker_that_is_not_ready_for_a_while_says_so() -> None:
    now_ms, why = 1_000, ""
    down = BrokerProblems("m1", SoleOwner(), lambda: (not why, why), lambda: now_ms)
    await down.look()
    assert down.problems() == []
    why = "the BookKeeper of ledger_url does not answer as it should"
    await down.look()
    now_ms += UNREADY_MS - 1
    await down.look()
    assert down.problems() == [], "a moment"
    now_ms += 1
    (problem,) = down.problems()
    assert (problem.kind, problem.id, problem.since_ms) == ("process_down", "m1", 1_000)
    assert problem.sentence == f"Broker m1 is not ready: {why}."
    why = ""
    await down.look()
    assert down.problems() == []


async def test_a_broker_that_is_gone_is_told_of_by_one_of_the_others_until_it_is_back(tmp_path: Path, metadata_url: str) -> None:
    """Once others had its topics, nothing was said to be wrong."""
    async with shared_broker(tmp_path, metadata_url, 1) as first, shared_broker(tmp_path, metadata_url, 3) as third:
        async with shared_broker(tmp_path, metadata_url, 2):
            pass
        for broker in (first, third):
            assert isinstance(broker.service.owners, SharedMember)
            await broker.service.owners.look()
            await broker.service.broker_problems.look()
        (problem,), others = first.service.broker_problems.problems(), third.service.broker_problems.problems()
        assert problem.id == "machine-2" and "does not run" in problem.sentence and problem.since_ms is not None and others == []
        async with shared_broker(tmp_path, metadata_url, 2):
            assert isinstance(first.service.owners, SharedMember)
            await first.service.owners.look()
            assert first.service.broker_problems.problems() == []


async def test_members_of_tenants_are_not_told_of_brokers(world: BrokerWorld) -> None:
    world.service.why_not_ready = "the log cannot be written"
    passing_ms = iter((0, UNREADY_MS, UNREADY_MS))
    world.service.broker_problems = BrokerProblems("m1", SoleOwner(), world.service.ready, passing_ms.__next__)
    await world.service.broker_problems.look()
    told = await world.admin.problems.list_problems(ProblemsList(of_tenants=["acme"]))
    assert told.problems == [] and told.total == {}
    told = await world.admin.problems.list_problems(ProblemsList(everywhere=True))
    assert [problem.kind for problem in told.problems] == ["process_down"] and told.total == {"process_down": 1}


def test_topics_with_too_few_copies_at_several_brokers_are_one_problem() -> None:
    """There was a row for each broker, and both read alike."""

    def answer(topics: int, since_ms: int, *more: Problem) -> ProblemsFound:
        few = Problem(
            kind=Kind.FEWER_COPIES,
            sentence=f"Topics: {topics}.",
            topics=topics,
            since_ms=since_ms,
            tenant="acme",
            namespace="acme/orders",
        )
        return ProblemsFound(
            problems=[few, *more],
            total={"fewer_copies": 1} | ({"no_consumer": len(more)} if more else {}),
            by_namespace={"acme/orders": "fewer_copies"},
            beyond=0,
            unknown_topics=0,
            at_ms=9,
            looked_ms=8,
        )

    other = Problem(kind=Kind.NO_CONSUMER, sentence="", tenant="acme", namespace="acme/orders", topic="persistent://acme/orders/t")
    found = merged([answer(1_000, 7), answer(3, 5, other)])
    assert [problem.kind for problem in found.problems] == ["no_consumer", "fewer_copies"]
    assert found.problems[1].sentence.endswith("because too few bookies answer: 1,003.") and found.problems[1].since_ms == 5
    assert found.total == {"fewer_copies": 1, "no_consumer": 1}
