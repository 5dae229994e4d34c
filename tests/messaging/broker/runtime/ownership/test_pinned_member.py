"""When one broker of several with logs of their own decides whose a bundle is to be, which is for good."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from messaging.broker.runtime.ownership.pinned_member import OTHERS_S, PinnedMember
from messaging.errors import NotReady
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import parse_topic
from messaging.storage.ownership import SERVES, BrokerSession, NamespaceBundle, OwnershipChanges, OwnershipRow, OwnershipStore
from tests.support.clock import Clock

TOPICS = [parse_topic(f"persistent://acme/orders/{number}") for number in range(20)]
MINE, OTHER, BROKERS = "b1", "b2", 3


class Store:
    """`live`: brokers that opened their sessions. Whoever tries to acquire a bundle gets it."""

    def __init__(self) -> None:
        self.live = [MINE, OTHER]
        self.away: list[str] = []
        self.rows: list[OwnershipRow] = []

    async def open_session(self, broker_id: str, addresses: dict[str, str], *, replace: bool) -> int:
        return 1

    async def renew_session(self, broker_id: str, session: int) -> None:
        pass

    async def ownership_changes(self, after: int) -> OwnershipChanges:
        sessions = [BrokerSession(broker_id, 1, {SERVES: f"pulsar://{broker_id}"}, True) for broker_id in self.live]
        sessions += [BrokerSession(broker_id, 1, {SERVES: f"pulsar://{broker_id}"}, False) for broker_id in self.away]
        return OwnershipChanges([row for row in self.rows if row.change > after], sessions, len(self.rows), more=False)

    async def acquire_bundle(self, bundle: NamespaceBundle, broker_id: str, session: int, *, pinned: bool) -> OwnershipRow:
        self.rows.append(OwnershipRow(bundle, broker_id, session, 1, "owned", pinned, len(self.rows) + 1))
        return self.rows[-1]


@pytest.fixture
async def world() -> tuple[Store, PinnedMember, Clock]:
    store, clock = Store(), Clock(1_000_000)
    member = PinnedMember(
        cast(OwnershipStore, store), MINE, lambda namespace: equal_bundles(4), BROKERS, now_s=lambda: clock.now_ms / 1000
    )
    await member.start({SERVES: "pulsar://here"})
    return store, member, clock


async def test_nothing_is_divided_before_all_have_started_whosever_turn_it_would_be(
    world: tuple[Store, PinnedMember, Clock],
) -> None:
    store, member, _ = world
    for name in TOPICS:
        with pytest.raises(NotReady, match="other brokers of this machine are starting; try again"):
            await member.where(name)
    store.live.append("b3")
    found = [await member.where(name) for name in TOPICS]
    assert {each and each.addresses[SERVES] for each in found} == {None, "pulsar://b2", "pulsar://b3"}


async def test_who_is_away_is_named_as_nobody_else_serves_its_topics(world: tuple[Store, PinnedMember, Clock]) -> None:
    store, member, _ = world
    assert member.absent() == []
    store.away = ["b3", "which never had a topic"]
    await store.acquire_bundle(NamespaceBundle("acme/orders", 0, 1 << 30), "b3", 1, pinned=True)
    await member.look()
    assert member.absent() == ["b3"] and [each.broker_id for each in member.other_sessions()] == [OTHER]


async def test_what_is_in_a_log_is_served_while_others_start(world: tuple[Store, PinnedMember, Clock]) -> None:
    store, member, _ = world
    first, second = list(pairwise(equal_bundles(4)))[:2]
    for bundle, owner in ((first, MINE), (second, OTHER)):
        await store.acquire_bundle(NamespaceBundle("acme/orders", *bundle), owner, 1, pinned=True)
    await member.look()
    found = []
    for name in TOPICS:
        try:
            found.append(await member.where(name))
        except NotReady:
            continue
    assert {each and each.addresses[SERVES] for each in found} == {None, "pulsar://b2"} and len(found) < len(TOPICS)


async def test_who_does_not_start_is_not_waited_for_for_ever(world: tuple[Store, PinnedMember, Clock]) -> None:
    _, member, clock = world
    clock.pass_(round(OTHERS_S * 1000) + 1)
    await member.renew()
    found = [await member.where(name) for name in TOPICS]
    assert {each and each.addresses[SERVES] for each in found} == {None, "pulsar://b2"}
