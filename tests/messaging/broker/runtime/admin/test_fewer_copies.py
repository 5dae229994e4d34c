"""Ledgers on bookies that get too few copies are told of: in the list of problems, of the topic, and to the doctor."""

from __future__ import annotations

from typing import cast

import pytest

from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.diagnosis import TopicExplain
from messaging.adminrpc.methods import STATUS
from messaging.adminrpc.problems import ProblemsList
from messaging.adminrpc.status import BrokerStatus
from messaging.broker.runtime.admin.fewer_copies import REMEDY
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import parse_topic
from tests.support.clients.consuming import TOPIC, filled
from tests.support.worlds.broker_world import BrokerWorld

OTHER = "persistent://acme/orders/other"


class Bookies:
    """What a store on bookies answers beside what every store does."""

    def __init__(self, world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.degraded: dict[int, float] = {}
        answers = {"racks": None, "bookies": list, "degraded_for_s": lambda: self.degraded}
        for name, answer in answers.items():
            monkeypatch.setattr(world.ledgers, name, answer, raising=False)


async def problems(world: BrokerWorld, asked: ProblemsList) -> list[Problem]:
    found = await world.admin.problems.list_problems(asked)
    return [problem for problem in found.problems if problem.kind == Kind.FEWER_COPIES]


async def topic_step(world: BrokerWorld, topic: str) -> str:
    steps = (await world.admin.diagnosis.explain_topic(TopicExplain(topic=topic))).steps
    (found,) = (step for step in steps if step.step == "topic")
    return found.code


async def test_they_are_told_of_with_whom_they_concern(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    bookies = Bookies(world, monkeypatch)
    for topic in (TOPIC, OTHER):
        await filled(world, 1, topic)
    everywhere = ProblemsList(everywhere=True)
    status = world.admin.own[STATUS.name]
    assert await problems(world, everywhere) == [] and await topic_step(world, TOPIC) == "topic.open"
    ledger_id = (await world.service.topics.get(parse_topic(TOPIC), create=False)).ledger.writing_to
    bookies.degraded = {ledger_id: 90.0, ledger_id + 1_000: 300.0}  # and one of acknowledgements, which is no topic's
    (problem,) = await problems(world, everywhere)
    assert problem.sentence == "Topics whose messages get fewer copies than they should, because too few bookies answer: 1."
    assert (problem.tenant, problem.namespace, problem.topic, problem.remedy) == ("acme", "acme/orders", "", REMEDY)
    assert problem.since_ms is not None and 80_000 < world.service.now_ms() - problem.since_ms < 200_000
    for concerned in (ProblemsList(of_namespaces=["acme/orders"]), ProblemsList(of_tenants=["acme"])):
        assert [each.namespace for each in await problems(world, concerned)] == ["acme/orders"]
    for other in (ProblemsList(of_tenants=["other"]), ProblemsList(of_namespaces=["acme/strict"])):
        assert await problems(world, other) == [], "whoever may not see the namespace is not told"
    assert await topic_step(world, TOPIC) == "topic.fewer_copies" and await topic_step(world, OTHER) == "topic.open"
    told = cast(BrokerStatus, await status(BrokerAsked()))
    assert told.degraded_ledgers == 2 and told.degraded_since_ms is not None and told.degraded_since_ms < problem.since_ms
