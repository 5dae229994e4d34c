"""Bundles follow isolation policies, where all brokers store in one place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.broker.runtime.ownership.bundle_moves import NOTICES_MAX, BundleMoves
from messaging.broker.runtime.ownership.policy_moves import AGAIN_S, PolicyMoves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.client import connect
from messaging.errors import Conflict, NotReady
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import parse_topic
from messaging.storage.ownership import NamespaceBundle
from tests.support.brokers.fleet import shared_fleet
from tests.support.brokers.running_broker import RunningBroker

TOPICS = [f"persistent://acme/orders/t{number}" for number in range(8)]
Fleet = list[RunningBroker]


def member_of(broker: RunningBroker) -> SharedMember:
    assert isinstance(broker.service.owners, SharedMember)
    return broker.service.owners


def moves_of(broker: RunningBroker) -> BundleMoves:
    moves = broker.service.bundle_moves
    assert moves is not None
    return moves


class Watched:
    """What follows the policies at one broker, driven by the test: a broker's own runs once a second."""

    def __init__(self, broker: RunningBroker) -> None:
        self.now_s = 0.0
        self.moves = PolicyMoves(member_of(broker), moves_of(broker), broker.service.access.view.placement, lambda: self.now_s)
        broker.service.access.feed.on_change.append(self.moves.follow)


@pytest.fixture
async def fleet(tmp_path: Path, metadata_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    """Two brokers, which both own bundles of acme/orders and move none by themselves."""
    for name in ("POLICY_LOOK_S", "ADOPT_S", "BALANCE_S"):
        monkeypatch.setattr(f"messaging.broker.runtime.main.{name}", 3600.0)
    async with shared_fleet(tmp_path, metadata_url, 2) as fleet:
        async with connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client:
            for topic in TOPICS:
                async with client.producer(topic) as producer:
                    await producer.send(b"a")
        for broker in fleet:
            await member_of(broker).look()
        assert all(owned(broker) for broker in fleet)
        yield fleet


def owned(broker: RunningBroker) -> set[NamespaceBundle]:
    return {row.bundle for row in moves_of(broker).rows() if row.bundle.namespace == "acme/orders"}


async def unserved(fleet: Fleet) -> list[Problem]:
    """As each of them tells by itself, of the tenant and of all."""
    found = []
    for asked in (ProblemsList(of_tenants=["acme"]), ProblemsList(everywhere=True)):
        answers = [cast(ProblemsFound, await broker.admin.own[PROBLEMS_LIST.name](asked)) for broker in fleet]
        found.append([problem for answer in answers for problem in answer.problems if problem.kind == Kind.UNSERVED])
    assert found[0] == [problem for problem in found[1] if problem.tenant == "acme"]
    return found[0]


async def isolate(fleet: Fleet, primary: str, secondary: str = "", scope: str = "changed") -> None:
    state: dict[str, Any] = {"namespaces": ["acme/.*"], "primary": [primary], "unload_scope": scope}
    for broker in fleet:
        await broker.say(("isolation", "p", state | {"secondary": [secondary] if secondary else []}))


async def test_bundles_move_to_the_brokers_that_a_policy_names(fleet: Fleet) -> None:
    watched, bundles = [Watched(broker) for broker in fleet], owned(fleet[0]) | owned(fleet[1])
    await isolate(fleet, "machine-2", scope="none")
    for each in watched:
        await each.moves.look()
    assert owned(fleet[0]), "the policy asks for nothing to move"
    await isolate(fleet, "machine-2")
    for each in watched:
        await each.moves.look()
    await member_of(fleet[1]).look()
    assert not owned(fleet[0]) and owned(fleet[1]) == bundles
    async with (
        connect(fleet[0].service.addresses.broker_url, fleet[0].token("owner")) as client,
        client.consumer(TOPICS[0], "s", initial="earliest") as consumer,
    ):
        assert (await consumer.receive(timeout_s=20)).payload == b"a", "clients find it"
    with pytest.raises(Conflict, match="isolation policies keep namespace acme/orders from broker machine-1"):
        await moves_of(fleet[1]).give(next(iter(bundles)), "machine-1")


async def test_moves_of_a_policy_are_announced_together_as_those_of_a_drain_are(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight at a time, each of which was announced for 1.2 s, took minutes for a thousand bundles."""
    announced, most, all_at_once = 0, 0, asyncio.Event()
    rows = [next(iter(moves_of(fleet[0]).rows()))._replace(bundle=NamespaceBundle("acme/orders", at, at + 1)) for at in range(100)]

    async def give(self: BundleMoves, bundle: NamespaceBundle, broker_id: str = "", *, notice: bool = True) -> None:
        nonlocal announced, most
        announced += 1
        most = max(most, announced)
        if most == NOTICES_MAX:
            all_at_once.set()
        await asyncio.wait_for(all_at_once.wait(), 5)
        announced -= 1

    watched = Watched(fleet[0])
    await isolate(fleet, "machine-2")
    monkeypatch.setattr(BundleMoves, "rows", lambda self: rows)
    monkeypatch.setattr(BundleMoves, "give", give)
    await watched.moves.look()
    assert most == NOTICES_MAX


async def test_a_namespace_that_nobody_may_have_is_released_and_its_clients_are_told_why(fleet: Fleet) -> None:
    watched = [Watched(broker) for broker in fleet]
    await isolate(fleet, "gone")
    for each in watched:
        await each.moves.look()
    assert not owned(fleet[0]) and not owned(fleet[1])
    for broker in fleet:
        await member_of(broker).look()
        await member_of(broker).adopt()
        with pytest.raises(NotReady, match="isolation policy p"):
            await member_of(broker).where(parse_topic(TOPICS[0]))
    told = await unserved(fleet)
    assert [(problem.namespace, problem.tenant) for problem in told] == [("acme/orders", "acme")], "once, by one of them"
    assert "isolation policy p" in told[0].sentence and "start one that it names" in told[0].remedy
    await isolate(fleet, "gone", secondary="machine-1")
    await member_of(fleet[0]).adopt()
    assert await member_of(fleet[0]).where(parse_topic(TOPICS[0])) is None, "a secondary broker is better than none"
    assert await unserved(fleet) == []


async def test_a_bundle_that_was_on_its_way_when_the_policy_changed_moves_on(fleet: Fleet) -> None:
    watched = [Watched(broker) for broker in fleet]
    (bundle, *_), before = owned(fleet[0]), owned(fleet[1])
    await isolate(fleet[1:], "machine-1")  # the giver does not know of it yet
    await watched[1].moves.look()
    assert not owned(fleet[1]) & before
    await moves_of(fleet[0]).give(bundle, "machine-2")
    await member_of(fleet[1]).look()
    assert bundle in owned(fleet[1])
    await watched[1].moves.look()
    assert bundle not in owned(fleet[1])
    watched[1].now_s = AGAIN_S + 1
    await watched[1].moves.look()


async def test_a_drain_keeps_what_nobody_else_may_have(fleet: Fleet) -> None:
    await isolate(fleet, "machine-1", scope="none")
    bundles = owned(fleet[0])
    assert await moves_of(fleet[0]).drain() >= len(bundles)
    assert owned(fleet[0]) == bundles, "isolation comes before availability: it serves them until it stops"
    served = next(text for text in TOPICS if text in fleet[0].service.topics.loaded)
    assert await member_of(fleet[0]).where(parse_topic(served)) is None
