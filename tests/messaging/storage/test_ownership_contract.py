"""What all databases promise of ownership: one live owner at a time, and fences that make all former ones harmless."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from messaging.storage.ledger_store import Fence, Fenced
from messaging.storage.meta_store import TopicRecord
from messaging.storage.ownership import (
    CHANGES_MAX,
    INSTANCE,
    LEASE_MS,
    SESSION_KEPT_MS,
    BundleRefused,
    NamespaceBundle,
    NotRecovered,
    OwnershipRow,
    SessionConflict,
    SessionLost,
)
from messaging.storage.postgresql.meta_store import PostgresqlMetaStore
from messaging.storage.sql.meta_store import SqlMetaStore
from messaging.storage.sql.ownership import SqlOwnershipStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore

END = 0xFFFFFFFF
HALF = 0x80000000
WHOLE = NamespaceBundle("acme/orders", 0, END)
LOWER, UPPER = NamespaceBundle("acme/orders", 0, HALF), NamespaceBundle("acme/orders", HALF, END)
TOPIC = "persistent://acme/orders/in"
ADDRESSES = {"broker_url": "pulsar://here:6650"}


class Shared:
    """One database and its time, for any number of brokers."""

    def __init__(self, meta: SqlMetaStore) -> None:
        self.now_ms = 1_000_000
        self.meta = meta
        self.ownership = SqlOwnershipStore(meta.thread, lambda db: self.now_ms, meta.lock)

    async def owner(self, bundle: NamespaceBundle, broker_id: str, *, pinned: bool = False) -> OwnershipRow:
        session = await self.ownership.open_session(broker_id, ADDRESSES, replace=True)
        return await self.ownership.acquire_bundle(bundle, broker_id, session, pinned=pinned)

    async def ended(self, broker_id: str, session: int) -> None:
        """By another broker, which recovered its log."""
        await self.ownership.recovered(await self.ownership.fence_session(broker_id, session))

    async def may_write(self, fence: Fence) -> bool:
        try:
            await self.meta.put_value(fence, "key", b"")
        except Fenced:
            return False
        return True


def _made(kind: str, request: pytest.FixtureRequest, folder: Path) -> SqlMetaStore:
    if kind == "postgresql":
        return PostgresqlMetaStore(request.getfixturevalue("metadata_url"))
    return SqliteMetaStore(folder / "meta.sqlite3")


@pytest.fixture(params=["sqlite", "postgresql"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    meta = _made(request.param, request, tmp_path)
    await meta.start()
    yield Shared(meta)
    await meta.stop()


# --- sessions -----------------------------------------------------------------------------------------------------------------


async def test_two_with_one_id_are_refused_while_the_first_is_alive(shared: Shared) -> None:
    first = await shared.ownership.open_session("b1", ADDRESSES)
    with pytest.raises(SessionConflict, match=r"b1 is alive at pulsar://here:6650.*broker_id"):
        await shared.ownership.open_session("b1", {})
    shared.now_ms += LEASE_MS
    second = await shared.ownership.open_session("b1", {})
    assert second > first
    with pytest.raises(SessionLost):
        await shared.ownership.renew_session("b1", first)
    await shared.ownership.renew_session("b1", second)


async def test_whoever_has_the_lock_replaces_a_session_that_is_still_alive(shared: Shared) -> None:
    first = await shared.ownership.open_session("b1", ADDRESSES)
    assert await shared.ownership.open_session("b1", ADDRESSES, replace=True) == first + 1


async def test_a_session_that_expired_unnoticed_is_renewed(shared: Shared) -> None:
    session = await shared.ownership.open_session("b1", ADDRESSES)
    shared.now_ms += 10 * LEASE_MS
    (expired,) = (await shared.ownership.ownership_changes(0)).sessions
    assert (expired.live, expired.closed) == (False, False)
    await shared.ownership.renew_session("b1", session)
    assert (await shared.ownership.ownership_changes(0)).sessions[0] == ("b1", session, ADDRESSES, True, False)


async def test_a_closed_session_is_over(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    await shared.ownership.close_session("b1", row.session)
    await shared.ownership.close_session("b1", row.session)
    (closed,) = (await shared.ownership.ownership_changes(0)).sessions
    assert (closed.live, closed.closed) == (False, True)
    with pytest.raises(SessionLost):
        await shared.ownership.renew_session("b1", row.session)
    with pytest.raises(SessionLost):
        await shared.ownership.acquire_bundle(WHOLE, "b1", row.session)
    await shared.ended("b1", row.session)
    assert (await shared.owner(WHOLE, "b2")).epoch > row.epoch


async def test_closing_a_session_that_was_replaced_leaves_the_new_one(shared: Shared) -> None:
    first = await shared.ownership.open_session("b1", ADDRESSES)
    second = await shared.ownership.open_session("b1", ADDRESSES, replace=True)
    await shared.ownership.close_session("b1", first)
    await shared.ownership.renew_session("b1", second)


# --- acquiring ----------------------------------------------------------------------------------------------------------------


async def test_the_fence_of_an_owner_is_good_for_the_metadata(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    assert row.fence.scope == "acme/orders/0x00000000_0xffffffff"
    await shared.meta.cas_topic(row.fence, TopicRecord(TOPIC))
    assert await shared.meta.get_topic(TOPIC)


async def test_acquiring_again_changes_nothing(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    assert await shared.ownership.acquire_bundle(WHOLE, "b1", row.session) == row
    assert await shared.may_write(row.fence)


@pytest.mark.parametrize("asked", [WHOLE, LOWER, NamespaceBundle("acme/orders", HALF - 1, HALF + 1)])
async def test_what_overlaps_a_live_owners_bundle_is_refused(shared: Shared, asked: NamespaceBundle) -> None:
    row = await shared.owner(LOWER, "b1")
    with pytest.raises(BundleRefused, match="belongs to broker b1") as refused:
        await shared.owner(asked, "b2")
    assert refused.value.row == row and refused.value.retryable
    assert await shared.may_write(row.fence)


@pytest.mark.parametrize("asked", [UPPER, NamespaceBundle("acme/other", 0, END), NamespaceBundle("acme/order", 0, END)])
async def test_what_does_not_overlap_it_is_free(shared: Shared, asked: NamespaceBundle) -> None:
    row = await shared.owner(LOWER, "b1")
    assert (await shared.owner(asked, "b2")).broker_id == "b2"
    assert await shared.may_write(row.fence)


@pytest.mark.parametrize("asked", [WHOLE, LOWER, NamespaceBundle("acme/orders", 5, 10)])
async def test_whoever_takes_over_makes_the_former_owner_harmless(shared: Shared, asked: NamespaceBundle) -> None:
    former = [await shared.owner(LOWER, "b1"), await shared.owner(UPPER, "b2")]
    shared.now_ms += LEASE_MS
    for each in former:
        await shared.ended(each.broker_id, each.session)
    row = await shared.owner(asked, "b3")
    assert row.epoch > former[0].epoch
    assert await shared.may_write(row.fence)
    assert not await shared.may_write(former[0].fence)
    assert await shared.may_write(former[1].fence) is (asked != WHOLE)  # nobody has it, but nobody took it either
    for change in (shared.ownership.drain_bundle, shared.ownership.release_bundle):
        with pytest.raises(Fenced):
            await change(former[0])


async def test_nobody_acquires_what_a_broker_had_before_its_log_was_recovered(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    shared.now_ms += LEASE_MS
    session = await shared.ownership.open_session("b2", ADDRESSES)
    for _ in range(2):
        with pytest.raises(NotRecovered) as left:
            await shared.ownership.acquire_bundle(LOWER, "b2", session)
        assert left.value.row == row
        ended = await shared.ownership.fence_session("b1", row.session)
    with pytest.raises(SessionLost):
        await shared.ownership.renew_session("b1", row.session)
    again = await shared.ownership.fence_session("b1", row.session)
    with pytest.raises(Fenced):
        await shared.ownership.recovered(ended)
    await shared.ownership.recovered(again)
    assert (await shared.ownership.acquire_bundle(LOWER, "b2", session)).epoch > row.epoch


async def test_a_broker_that_is_alive_is_not_ended(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    with pytest.raises(SessionConflict, match="b1 is alive"):
        await shared.ownership.fence_session("b1", row.session)
    assert (await shared.ownership.fence_session("b1", row.session, gone=True)).session == row.session
    following = await shared.ownership.open_session("b1", ADDRESSES)
    with pytest.raises(SessionConflict, match=f"session {following}"):
        await shared.ownership.fence_session("b1", row.session, gone=True)
    shared.now_ms += LEASE_MS
    assert (await shared.ownership.fence_session("b1", row.session)).session == following, "it left nothing either"


async def test_a_broker_that_recovered_its_own_log_gives_back_what_it_had(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    session = await shared.ownership.open_session("b1", {}, replace=True)
    other = await shared.ownership.open_session("b2", ADDRESSES)
    with pytest.raises(NotRecovered):
        await shared.ownership.acquire_bundle(WHOLE, "b2", other)
    assert not (await shared.ownership.ownership_changes(0)).sessions[0].serves
    await shared.ownership.serve("b1", session, ADDRESSES)
    assert (await shared.ownership.ownership_changes(0)).sessions[0].serves
    assert (await shared.ownership.acquire_bundle(WHOLE, "b2", other)).epoch > row.epoch


async def test_a_process_with_the_name_of_the_former_one_replaces_its_session(shared: Shared) -> None:
    first = await shared.ownership.open_session("b1", {INSTANCE: "a"})
    with pytest.raises(SessionConflict, match="a broker with the id b1 is alive"):
        await shared.ownership.open_session("b1", {INSTANCE: "b"})
    assert await shared.ownership.open_session("b1", {INSTANCE: "a"}) == first + 1


async def test_epochs_rise_for_ever(shared: Shared) -> None:
    epochs = []
    for broker_id in ("b1", "b2", "b1", "b3"):
        row = await shared.owner(WHOLE, broker_id)
        epochs.append(row.epoch)
        await shared.ownership.release_bundle(row)
    parts = await shared.ownership.split_bundle(await shared.owner(WHOLE, "b1"), [HALF])
    epochs.append(min(part.epoch for part in parts))
    await shared.ownership.close_session("b1", parts[0].session)
    await shared.ended("b1", parts[0].session)
    epochs.append((await shared.owner(WHOLE, "b2")).epoch)
    assert epochs == sorted(set(epochs))


async def test_many_that_want_the_same_at_once_get_one_owner(shared: Shared) -> None:
    async def acquire(broker_id: str, bundle: NamespaceBundle) -> OwnershipRow | None:
        try:
            return await shared.owner(bundle, broker_id)
        except BundleRefused:
            return None

    rows = await asyncio.gather(*(acquire(f"b{number}", (WHOLE, LOWER, UPPER)[number % 3]) for number in range(12)))
    owners = [row for row in rows if row is not None]
    assert sum(row.bundle.upper - row.bundle.lower for row in owners) == END
    assert [await shared.may_write(row.fence) for row in owners] == [True] * len(owners)


async def test_brokers_with_connections_of_their_own_take_turns(
    shared: Shared, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Eight brokers take, cut and release all at once; what each holds at the end is its alone."""
    kind = "postgresql" if isinstance(shared.meta, PostgresqlMetaStore) else "sqlite"
    metas = [_made(kind, request, tmp_path) for _ in range(4)]
    for meta in metas:
        await meta.start()
    owned: dict[NamespaceBundle, OwnershipRow] = {}

    async def live(number: int) -> None:
        ownership = metas[number % 4].ownership
        session = await ownership.open_session(f"b{number}", ADDRESSES)
        bundles = [NamespaceBundle(f"acme/{name}", *ends) for name in range(3) for ends in ((0, HALF), (HALF, END), (0, END))]
        for turn in range(6):
            try:
                row = await ownership.acquire_bundle(bundles[(number + turn) % 9], f"b{number}", session)
            except BundleRefused:
                continue
            if turn % 3 == 0:
                await ownership.release_bundle(row)
            elif turn % 3 == 1:
                for part in await ownership.split_bundle(row, [(row.bundle.lower + row.bundle.upper) // 2]):
                    owned[part.bundle] = part
            else:
                owned[row.bundle] = row

    await asyncio.gather(*map(live, range(8)))
    rows = sorted((row for row in (await shared.ownership.ownership_changes(0)).rows if row.state != "free"), key=str)
    assert rows and rows == sorted(owned.values(), key=str)
    assert all(not a.bundle.overlaps(b.bundle) for a in rows for b in rows if a is not b)
    assert all([await shared.may_write(row.fence) for row in rows])
    for meta in metas:
        await meta.stop()


async def test_what_is_in_a_brokers_log_stays_with_it(shared: Shared) -> None:
    row = await shared.owner(LOWER, "b1", pinned=True)
    shared.now_ms += 10 * LEASE_MS
    with pytest.raises(BundleRefused, match="which is gone and has its log"):
        await shared.owner(WHOLE, "b2")
    again = await shared.owner(LOWER, "b1")
    assert again.pinned and again.epoch > row.epoch
    await shared.owner(UPPER, "b2")
    with pytest.raises(BundleRefused, match="cannot move"):
        await shared.ownership.hand_over_bundle(again, "b2")
    await shared.ownership.release_bundle(again)
    assert not (await shared.owner(LOWER, "b2")).pinned


# --- moving and splitting -----------------------------------------------------------------------------------------------------


async def test_what_is_handed_over_is_the_takers_at_once(shared: Shared) -> None:
    taker = await shared.ownership.open_session("b2", ADDRESSES)
    row = await shared.owner(WHOLE, "b1")
    drained = await shared.ownership.drain_bundle(row)
    assert await shared.may_write(drained.fence)  # what is under way is finished
    given = await shared.ownership.hand_over_bundle(drained, "b2")
    assert (given.broker_id, given.session, given.state) == ("b2", taker, "owned")
    assert not await shared.may_write(row.fence) and await shared.may_write(given.fence)
    assert await shared.ownership.acquire_bundle(WHOLE, "b2", taker) == given
    with pytest.raises(BundleRefused):
        await shared.ownership.acquire_bundle(WHOLE, "b1", row.session)


async def test_nothing_is_handed_to_who_is_not_alive(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    with pytest.raises(SessionLost, match="b2 is not alive"):
        await shared.ownership.hand_over_bundle(row, "b2")
    assert await shared.may_write(row.fence)


async def test_an_owner_that_dies_while_it_drains_is_taken_over(shared: Shared) -> None:
    drained = await shared.ownership.drain_bundle(await shared.owner(WHOLE, "b1"))
    shared.now_ms += LEASE_MS
    await shared.ended("b1", drained.session)
    assert (await shared.owner(WHOLE, "b2")).state == "owned"
    with pytest.raises(Fenced):
        await shared.ownership.hand_over_bundle(drained, "b1")


async def test_the_parts_of_a_split_are_all_there_is_of_the_whole(shared: Shared) -> None:
    whole = await shared.owner(WHOLE, "b1")
    parts = await shared.ownership.split_bundle(whole, [HALF, 5, HALF])
    assert [part.bundle[1:] for part in parts] == [(0, 5), (5, HALF), (HALF, END)]
    assert all((part.broker_id, part.session) == ("b1", whole.session) for part in parts)
    assert not await shared.may_write(whole.fence)
    assert [await shared.may_write(part.fence) for part in parts] == [True] * 3
    with pytest.raises(Fenced):
        await shared.ownership.split_bundle(whole, [7])


@pytest.mark.parametrize("cuts", [[], [0], [END], [HALF, END + 1]])
async def test_a_bundle_is_cut_inside(shared: Shared, cuts: list[int]) -> None:
    row = await shared.owner(WHOLE, "b1")
    with pytest.raises(ValueError, match="cuts lie inside"):
        await shared.ownership.split_bundle(row, cuts)
    assert await shared.may_write(row.fence)


# --- what others learn of it --------------------------------------------------------------------------------------------------


async def test_changes_come_in_order_and_once(shared: Shared) -> None:
    row = await shared.owner(WHOLE, "b1")
    first = await shared.ownership.ownership_changes(0)
    assert first.rows == [row]
    parts = await shared.ownership.split_bundle(row, [HALF])
    await shared.ownership.release_bundle(parts[0])
    second = await shared.ownership.ownership_changes(first.change)
    assert [(change.bundle, change.state) for change in second.rows] == [(UPPER, "owned"), (LOWER, "free")]
    third = await shared.ownership.ownership_changes(second.change)
    assert (third.rows, third.change) == ([], second.change)
    assert [session.broker_id for session in third.sessions] == ["b1"]


async def test_rows_that_change_while_pages_are_read_come_again(shared: Shared) -> None:
    """However many there are and whatever happens between two pages, who reads them all knows what there is."""
    session = await shared.ownership.open_session("b1", ADDRESSES)
    bundles = [NamespaceBundle(f"acme/n{number}", 0, END) for number in range(7)]
    rows = [await shared.ownership.acquire_bundle(bundle, "b1", session) for bundle in bundles]
    read: list[OwnershipRow] = []

    async def page(after: int, limit: int) -> tuple[int, bool]:
        changes = await shared.ownership.ownership_changes(after, limit)
        read.extend(changes.rows)
        assert changes.sessions[0].live
        return changes.change, changes.more

    change, more = await page(0, 3)
    assert read == rows[:3] and more
    await shared.ownership.release_bundle(rows[0])  # was read
    parts = await shared.ownership.split_bundle(rows[4], [HALF])  # was not
    change, more = await page(change, 3)
    assert read[3:] == [rows[3], rows[5], rows[6]] and more
    drained = await shared.ownership.drain_bundle(parts[0])
    change, more = await page(change, 2)
    assert [row.bundle for row in read[6:]] == [bundles[0], parts[1].bundle] and more
    change, more = await page(change, 1)
    assert read[8:] == [drained] and not more
    assert await page(change, 1) == (change, False)
    latest = {row.bundle: row for row in read}
    known = [row for row in latest.values() if row.bundle != bundles[4]]  # its parts came later
    assert sorted(known, key=str) == sorted((await shared.ownership.ownership_changes(0)).rows, key=str)


@pytest.mark.parametrize("limit", [0, -1, CHANGES_MAX + 1])
async def test_a_page_has_bounds(shared: Shared, limit: int) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        await shared.ownership.ownership_changes(0, limit)


async def test_sessions_that_ended_long_ago_are_forgotten(shared: Shared) -> None:
    """Brokers may have a new id at each start."""
    for broker_id in ("b1", "b2"):
        await shared.ownership.open_session(broker_id, ADDRESSES)
    await shared.ownership.close_session("b1", 1)
    shared.now_ms += SESSION_KEPT_MS
    await shared.ownership.open_session("b3", ADDRESSES)
    assert [session.broker_id for session in (await shared.ownership.ownership_changes(0)).sessions] == ["b1", "b2", "b3"]
    shared.now_ms += LEASE_MS + 1
    assert await shared.ownership.open_session("b2", ADDRESSES) == 2, "its number is still known"
    assert [session.broker_id for session in (await shared.ownership.ownership_changes(0)).sessions] == ["b2", "b3"]


async def test_the_database_tells_the_time(shared: Shared) -> None:
    """Not the brokers, whose clocks may be an hour off."""
    ownership = shared.meta.ownership
    session = await ownership.open_session("b1", ADDRESSES)
    with pytest.raises(SessionConflict):
        await ownership.open_session("b1", ADDRESSES)
    await ownership.acquire_bundle(WHOLE, "b1", session)
    assert (await ownership.ownership_changes(0)).sessions[0].live
