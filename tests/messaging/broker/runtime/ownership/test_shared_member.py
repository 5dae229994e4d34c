"""What one broker of several over shared storage does by what the metadata answer, and when they do not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import cast

import pytest

from messaging.broker.core.memory.memory_charge import MemoryCharge
from messaging.broker.core.ownership.lease import RENEW_S, SETTLES_S
from messaging.broker.runtime.ownership import fleet_member, held_lookups, shared_member
from messaging.broker.runtime.ownership.log_recovery import Forgotten
from messaging.broker.runtime.ownership.owners import LookupClient
from messaging.broker.runtime.ownership.rivals import RIVAL_S
from messaging.broker.runtime.ownership.shared_member import HAND_OVER_S, SharedMember
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.broker.runtime.wire.pending_requests import PendingRequests
from messaging.errors import NotReady
from messaging.protocol.bundles import equal_bundles
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Fence, Fenced, StoreError, Unavailable
from messaging.storage.ownership import (
    DRAINS,
    LEASE_MS,
    SERVES,
    UNTOLD,
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
from tests.support.waiting import eventually

TOPIC = parse_topic("persistent://acme/orders/t")
ROW = OwnershipRow(NamespaceBundle("acme/orders", 0, 0xFFFFFFFF), "b2", 1, 1, "owned", False, 1)


class Store:
    """Answers as the metadata of two brokers, of which the other one, `b2`, does not renew. `failing`: does not answer. `third`: a
    broker that is well. `rival`: it recovers `b2` at the same time; `ends`: how often this one tried to."""

    def __init__(self) -> None:
        self.failing: StoreError | None = None
        self.own, self.other_closed = {SERVES: "pulsar://here"}, False
        self.recovered = False
        self.other_lives = False
        self.rows = [ROW]
        self.looks = self.ends = 0
        self.third = self.rival = False

    async def renew_session(self, broker_id: str, session: int) -> None:
        if self.failing:
            raise self.failing

    async def serve(self, broker_id: str, session: int, addresses: dict[str, str]) -> None:
        if self.failing:
            raise self.failing
        self.own = addresses

    async def ownership_changes(self, after: int, limit: int = 0) -> OwnershipChanges:
        self.looks += 1
        if self.failing:
            raise self.failing
        other = BrokerSession("b2", 1, {SERVES: "pulsar://there"}, self.other_lives, self.other_closed)
        rows = [row for row in self.rows if row.change > after]
        third = [BrokerSession("b3", 1, {SERVES: "pulsar://third"}, True)] if self.third else []
        return OwnershipChanges(rows, [BrokerSession("b1", 1, self.own, True), other, *third], self.rows[-1].change, False)

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
        self.ends += 1
        if self.rival:
            raise Fenced("a newer epoch owns broker/b2")
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


async def test_a_broker_that_cannot_renew_its_session_tells_of_nobody(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, clock = world
    await member.look()
    assert [(each.broker_id, each.live) for each in member.known_sessions()] == [("b1", True), ("b2", False)]
    store.failing = Unavailable("the database does not answer")
    clock.now_ms += LEASE_MS
    with pytest.raises(NotReady, match="ask another one"):
        member.known_sessions()
    store.failing = None
    await member.renew()
    assert len(member.known_sessions()) == 2


async def test_a_broker_that_closed_its_session_needs_no_time(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.other_closed = True
    await member.look()
    assert await member.where(TOPIC) is None and store.recovered


async def test_two_recoverers_do_not_fence_each_other_for_ever(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt of one ended that of the other, a dozen times over, and the topics of a dead broker were away for a minute."""
    monkeypatch.setattr(shared_member, "RIVAL_LOOK_S", 0)
    store, member, clock = world
    store.other_closed = store.rival = True
    await member.look()
    for _ in range(3):
        with pytest.raises(NotReady, match="several brokers are taking over"):
            await member.where(TOPIC, sent=True)
    assert store.ends == 1
    store.rival = False
    clock.now_ms += round(RIVAL_S * 1000)
    assert await member.where(TOPIC, sent=True) is None and store.ends == 2, "the other one may have ended, too"


async def test_a_broker_that_a_third_one_ended_is_left_to_it(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_member, "RIVAL_LOOK_S", 0)
    store, member, clock = world
    store.other_closed = store.third = True
    await member.look()
    with pytest.raises(NotReady, match="several brokers are taking over"):
        await member.where(TOPIC, sent=True)
    assert store.ends == 0
    clock.now_ms += round(RIVAL_S * 1000)
    assert await member.where(TOPIC, sent=True) is None and store.ends == 1


async def test_a_broker_drains_once_the_metadata_say_so(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.failing = Unavailable("the database does not answer")
    with pytest.raises(Unavailable):
        await member.take_no_more()
    assert not member.drains
    store.failing = None
    await member.take_no_more()
    assert member.drains and DRAINS in store.own


async def test_a_broker_that_knows_no_tenants_takes_nothing_until_it_does() -> None:
    """It was given bundles at its start, and refused their clients."""
    store, told = Store(), asyncio.Event()
    member = SharedMember(
        cast(OwnershipStore, store), "b1", lambda namespace: equal_bundles(1), store, now_s=lambda: 1000, knows_tenants=told.is_set
    )
    store.recovered = True
    store.rows = [ROW._replace(broker_id="b1", session=1)]
    await member.resume(2)
    await member.serve({SERVES: "pulsar://here"})
    await member.follow()
    assert member.untold and store.own == {SERVES: "pulsar://here", UNTOLD: "1"}
    assert [row.session for row in member.owners.owned_by("b1")] == [1], "what it had is left to others"
    await member.take_no_more()
    assert set(store.own) == {SERVES, DRAINS, UNTOLD}
    told.set()
    store.failing = Unavailable("the database does not answer")
    with pytest.raises(Unavailable):
        await member.take_part()
    store.failing = None
    await member.take_again()
    assert UNTOLD in store.own
    await member.follow()
    assert not member.untold and store.own == {SERVES: "pulsar://here"}
    assert [row.session for row in member.owners.owned_by("b1")] == [2]


async def test_an_answer_that_was_lost_is_seen_at_the_next_look(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.own = store.own | {DRAINS: "1"}
    await member.look()
    assert member.drains


async def test_clients_that_were_sent_here_are_served_before_the_next_look(world: tuple[Store, SharedMember, Clock]) -> None:
    """Their backoff doubles with every refusal, so one that is too early costs a second or two."""
    store, member, _ = world
    store.other_lives = True
    await member.look()
    store.looks = 0
    with pytest.raises(NotReady, match="served by another broker"):
        await member.require(TOPIC)
    assert store.looks == 1
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 2, "owned", False, 2))
    await asyncio.gather(*(member.require(TOPIC) for _ in range(100)))
    assert store.looks == 2, "they share one look"
    await member.require(TOPIC)
    assert store.looks == 2, "who is right here costs none"


async def test_a_look_that_fails_refuses_those_who_waited_for_it(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.other_lives = True
    await member.look()
    store.failing = Unavailable("down")
    with pytest.raises(NotReady, match="cannot be read: down"):
        await member.require(TOPIC)
    store.failing = None
    with pytest.raises(NotReady, match="served by another broker"):
        await member.require(TOPIC)


async def test_whoever_asks_during_a_move_is_answered_when_it_is_over(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.other_lives = True
    store.rows.append(OwnershipRow(ROW.bundle, "b2", 1, 2, "draining", False, 2))
    await member.look()
    asked = asyncio.ensure_future(member.where(TOPIC))
    store.looks = 0
    await eventually(lambda: store.looks > 1)
    assert not asked.done() and not await member.serves(TOPIC), "who asks for many topics does not wait"
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 3, "owned", False, 3))
    assert await asked is None and await member.serves(TOPIC)


async def test_a_move_that_takes_long_is_not_waited_for(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, clock = world
    store.other_lives = True
    store.rows.append(OwnershipRow(ROW.bundle, "b2", 1, 2, "draining", False, 2))
    await member.look()
    asked = asyncio.ensure_future(member.where(TOPIC))
    store.looks = 0
    await eventually(lambda: store.looks)
    clock.now_ms += round(HAND_OVER_S * 1000) + 1
    with pytest.raises(NotReady, match="is being handed over"):
        await asked


async def test_the_one_that_gives_refuses_at_once(world: tuple[Store, SharedMember, Clock]) -> None:
    """Its move waits for topics that are being opened, so they must not wait for the move."""
    store, member, _ = world
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 2, "draining", False, 2))
    await member.look()
    store.looks = 0
    with pytest.raises(NotReady, match="moves to another broker: look it up again"):
        await member.require(TOPIC)
    assert store.looks == 0


async def test_who_opens_something_at_the_wrong_broker_during_a_move_is_refused_after_one_look(
    world: tuple[Store, SharedMember, Clock],
) -> None:
    """It waited for the end of the move, up to 4 s, among the requests that its connection may have under way."""
    store, member, _ = world
    store.other_lives = True
    await member.look()
    store.rows.append(OwnershipRow(ROW.bundle, "b2", 1, 2, "draining", False, 2))
    for known in (False, True):  # before the rows were looked at, and after
        store.looks = 0
        with pytest.raises(NotReady, match="moves to another broker: look it up again"):
            await member.require(TOPIC)
        assert store.looks == 1, known
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 3, "owned", False, 3))
    await member.require(TOPIC)
    assert store.looks == 2, "the move is over, and it was sent here"


async def test_one_that_gives_and_cannot_renew_lets_nobody_in(world: tuple[Store, SharedMember, Clock]) -> None:
    """A move that is announced waits for others, which wait for the metadata: clients that were let go came back meanwhile."""
    store, member, clock = world
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 2, "draining", False, 2))
    await member.look()
    member.leaving.add(ROW.bundle)
    await member.require(TOPIC)
    clock.now_ms += LEASE_MS
    with pytest.raises(NotReady, match="cannot renew"):
        await member.require(TOPIC)


async def test_a_look_up_waits_until_what_a_dead_broker_left_is_taken_over(world: tuple[Store, SharedMember, Clock]) -> None:
    """Its client would come again only after a backoff that doubles, and the longer it waited the later."""
    _, member, clock = world
    await member.look()
    finding = asyncio.create_task(member.found(TOPIC))
    assert not (await asyncio.wait([finding], timeout=0.1))[0], "its lease may only not have been renewed yet"
    await renew_for(member, clock, SETTLES_S)
    assert await asyncio.wait_for(finding, 10) is None


async def test_a_look_up_that_waits_is_refused_in_the_end(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, member, clock = world
    monkeypatch.setattr(fleet_member, "HELD_S", 1.0)
    await member.look()
    finding = asyncio.create_task(member.found(TOPIC))
    await asyncio.wait([finding], timeout=0.1)
    clock.now_ms += 1000
    with pytest.raises(NotReady, match="b2"):
        await asyncio.wait_for(finding, 10)


async def test_what_does_not_pass_is_refused_at_once(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, clock = world
    store.failing = Unavailable("the database does not answer")
    clock.now_ms += LEASE_MS
    with pytest.raises(NotReady, match="cannot renew its session"):
        await asyncio.wait_for(member.found(TOPIC), 10)


async def _ask(member: SharedMember, tenant: str, waits: int) -> list[asyncio.Task[object]]:
    """Of ten look-ups of a tenant those that are not refused at once: so many."""
    finding: list[asyncio.Task[object]] = []
    for _ in range(10):
        finding.append(asyncio.create_task(member.found(parse_topic(f"persistent://{tenant}/orders/t"))))
    await eventually(lambda: sum(each.done() for each in finding) >= 10 - waits)
    assert all(isinstance(each.exception(), NotReady) for each in finding if each.done())
    waiting = [each for each in finding if not each.done()]
    assert len(waiting) == waits
    return waiting


async def test_no_more_look_ups_wait_than_there_is_room_for_and_no_tenant_takes_it_all(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: the topics of one tenant took all places, and the look-ups of all others were refused."""
    store, member, _ = world
    monkeypatch.setattr(held_lookups, "HELD_MAX", 4)
    store.rows.append(ROW._replace(bundle=ROW.bundle._replace(namespace="other/orders"), change=2))
    await member.look()
    waiting = [*await _ask(member, "acme", 2), *await _ask(member, "other", 1)]
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    for each in await _ask(member, "acme", 2):  # their places are free
        each.cancel()


async def test_a_look_up_of_a_connection_with_too_many_that_wait_is_refused(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    await member.look()
    full = LookupClient(place=lambda: nullcontext(False))
    with pytest.raises(NotReady, match="b2"):
        await asyncio.wait_for(member.found(TOPIC, client=full), 5)
    store.other_lives = True
    store.rows.append(OwnershipRow(ROW.bundle, "b2", 1, 2, "draining", False, 2))
    await member.look()
    with pytest.raises(NotReady, match="is being handed over"):
        await asyncio.wait_for(member.found(TOPIC, client=full), 5)


async def test_a_look_up_during_a_move_waits_in_its_place(world: tuple[Store, SharedMember, Clock]) -> None:
    store, member, _ = world
    store.other_lives = True
    store.rows.append(OwnershipRow(ROW.bundle, "b2", 1, 2, "draining", False, 2))
    await member.look()
    requests = PendingRequests(cast(OutboundBuffer, None), cast(MemoryCharge, None))
    finding = asyncio.create_task(member.found(TOPIC, client=LookupClient(place=lambda: requests.place(100))))
    await eventually(lambda: requests.waiting)
    assert (requests.waiting, requests.waiting_bytes) == (1, 100)
    store.rows.append(OwnershipRow(ROW.bundle, "b1", 1, 3, "owned", False, 3))
    assert await asyncio.wait_for(finding, 5) is None
    assert (requests.waiting, requests.waiting_bytes) == (0, 0)


async def test_a_look_up_of_a_client_that_is_gone_gives_up_its_place(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who connects, asks and goes again and again would fill them."""
    _, member, _ = world
    monkeypatch.setattr(held_lookups, "HELD_LOOK_S", 0.01)
    await member.look()
    gone = asyncio.Event()
    finding = asyncio.create_task(member.found(TOPIC, client=LookupClient(wanted=lambda: not gone.is_set())))
    assert not (await asyncio.wait([finding], timeout=0.1))[0]
    gone.set()
    with pytest.raises(NotReady, match="b2"):
        await asyncio.wait_for(finding, 5)


async def test_what_fails_after_whoever_waited_for_it_has_left_is_no_failure_that_nobody_saw(
    world: tuple[Store, SharedMember, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients leave, above all while a broker stops. It was logged with a traceback, and counted as a failure of the broker."""
    store, member, _ = world
    asked, answers = asyncio.Event(), asyncio.Event()
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))

    async def acquire_bundle(*request: object, **pinned: bool) -> OwnershipRow:
        asked.set()
        await answers.wait()
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(store, "acquire_bundle", acquire_bundle)
    await member.look()
    waiting = asyncio.create_task(member.where(TOPIC))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answers.set()
    await eventually(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("own ")])
    gc.collect()
    assert not unseen
