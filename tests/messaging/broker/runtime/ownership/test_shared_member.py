"""What one broker of several over shared storage does by what the metadata answer, and when they do not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from messaging.broker.core.ownership.lease import RENEW_S, SETTLES_S
from messaging.broker.runtime.ownership.log_recovery import Forgotten
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.errors import NotReady
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Fence, StoreError, Unavailable
from messaging.storage.ownership import (
    DRAINS,
    SERVES,
    BrokerSession,
    EndedSession,
    NamespaceBundle,
    NotRecovered,
    OwnershipChanges,
    OwnershipRow,
    OwnershipStore,
    scope_of_broker,
)
from tests.support.clock import Clock

TOPIC = parse_topic("persistent://acme/orders/t")
ROW = OwnershipRow(NamespaceBundle("acme/orders", 0, 0xFFFFFFFF), "b2", 1, 1, "owned", False, 1)


class Store:
    """Answers as the metadata of two brokers, of which the other one, `b2`, does not renew. `failing`: does not answer."""

    def __init__(self) -> None:
        self.failing: StoreError | None = None
        self.own, self.other_closed = {SERVES: "pulsar://here"}, False
        self.recovered = False

    async def renew_session(self, broker_id: str, session: int) -> None:
        if self.failing:
            raise self.failing

    async def serve(self, broker_id: str, session: int, addresses: dict[str, str]) -> None:
        if self.failing:
            raise self.failing
        self.own = addresses

    async def ownership_changes(self, after: int, limit: int = 0) -> OwnershipChanges:
        other = BrokerSession("b2", 1, {SERVES: "pulsar://there"}, False, self.other_closed)
        return OwnershipChanges([ROW] if after == 0 else [], [BrokerSession("b1", 1, self.own, True), other], 1, False)

    async def acquire_bundle(self, bundle: NamespaceBundle, broker_id: str, session: int, *, pinned: bool) -> OwnershipRow:
        if not self.recovered:
            raise NotRecovered("the cursors of it are in the log of broker b2", ROW)
        return OwnershipRow(bundle, broker_id, session, 2, "owned", False, 2)

    async def end(
        self,
        broker_id: str,
        session: int,
        gone: bool,
        owned: Callable[[], Awaitable[Callable[[str], bool]]],
        *,
        accept_loss: bool = False,
    ) -> EndedSession:
        self.recovered = True
        return EndedSession(broker_id, session, Fence(scope_of_broker(broker_id), 1))

    async def forget(self, ended: EndedSession) -> Forgotten:
        raise AssertionError("nobody is to be forgotten")

    async def why_unrecovered(self, broker_id: str) -> str:
        return ""


@pytest.fixture
async def world() -> tuple[Store, SharedMember, Clock]:
    store, clock = Store(), Clock(1_000_000)
    member = SharedMember(
        cast(OwnershipStore, store), "b1", lambda namespace: equal_bundles(1), store, now_s=lambda: clock.now_ms / 1000
    )
    await member.resume(1)
    await member.serve({SERVES: "pulsar://here"})
    return store, member, clock


async def renew_for(member: SharedMember, clock: Clock, seconds: float) -> None:
    for _ in range(round(seconds / RENEW_S)):
        clock.now_ms += round(RENEW_S * 1000)
        await member.renew()


async def test_a_broker_whose_lease_ended_during_an_outage_has_time_to_renew(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, clock = world
    await renew_for(member, clock, 2 * SETTLES_S)
    store.failing = Unavailable("the database does not answer")
    for _ in range(5):
        clock.now_ms += round(RENEW_S * 1000)
        with pytest.raises(Unavailable):
            await member.renew()
    store.failing = None
    await member.renew()
    with pytest.raises(NotReady, match="b2"):
        await member.where(TOPIC)
    assert not store.recovered
    await renew_for(member, clock, SETTLES_S)
    assert await member.where(TOPIC) is None and store.recovered


async def test_a_broker_that_closed_its_session_needs_no_time(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.other_closed = True
    await member.look()
    assert await member.where(TOPIC) is None and store.recovered


async def test_a_broker_drains_once_the_metadata_say_so(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.failing = Unavailable("the database does not answer")
    with pytest.raises(Unavailable):
        await member.take_no_more()
    assert not member.drains
    store.failing = None
    await member.take_no_more()
    assert member.drains and DRAINS in store.own


async def test_an_answer_that_was_lost_is_seen_at_the_next_look(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.own = store.own | {DRAINS: "1"}
    await member.look()
    assert member.drains
