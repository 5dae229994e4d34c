"""`OwnershipStore` in tables. The functions take a connection in a transaction and the time; all SQL is read by both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from messaging.storage.ledger_store import Fence, Fenced, StoreError
from messaging.storage.ownership import (
    CHANGES_MAX,
    INSTANCE,
    LEASE_MS,
    SESSION_KEPT_MS,
    BrokerSession,
    BundleRefused,
    EndedSession,
    NamespaceBundle,
    NotRecovered,
    OwnershipChanges,
    OwnershipRow,
    SessionConflict,
    SessionLost,
    State,
    scope_of_broker,
)
from messaging.storage.sql import tables
from messaging.storage.sql.thread import CommitThread, Database

T = TypeVar("T")

_CHANGE = "store/ownership-change"
_RECOVERED = "session-recovered/"
_BUNDLES, _SESSIONS = "/bundles", "/sessions"  # turns; no tenant is called so. A session is renewed whatever a bundle waits for
_COLUMNS = "namespace, lower, upper, broker_id, session, epoch, state, pinned, change"


def open_session(db: Database, now_ms: int, broker_id: str, addresses: dict[str, str], replace: bool) -> int:
    former = _sessions(db, now_ms, broker_id)
    same = bool(former) and INSTANCE in addresses and former[0].addresses.get(INSTANCE) == addresses[INSTANCE]
    if former and former[0].live and not (replace or same):
        where = former[0].addresses.get("broker_url", "another address")
        raise SessionConflict(
            f"a broker with the id {broker_id} is alive at {where}: stop it, or give this one an id of its own (broker_id)"
        )
    # Numbers of sessions go on from where they were: they are not stored here.
    db.execute("delete from broker_session where abs(expires_ms) < ?", (now_ms - SESSION_KEPT_MS,))
    session = tables.raise_epoch(db, f"session/{broker_id}", 0)
    sql = "insert into broker_session values (?, ?, ?, ?) on conflict (broker_id) do update set session = excluded.session, "
    sql += "addresses = excluded.addresses, expires_ms = excluded.expires_ms"
    db.execute(sql, (broker_id, session, tables.encode(addresses), now_ms + LEASE_MS))
    return session


def renew_session(db: Database, now_ms: int, broker_id: str, session: int) -> None:
    sql = "update broker_session set expires_ms = ? where broker_id = ? and session = ? and expires_ms > 0"
    if db.execute(sql, (now_ms + LEASE_MS, broker_id, session)).rowcount != 1:
        raise SessionLost(f"session {session} of broker {broker_id} was closed or replaced")


def serve(db: Database, now_ms: int, broker_id: str, session: int, addresses: dict[str, str]) -> None:
    sql = "update broker_session set addresses = ?, expires_ms = ? where broker_id = ? and session = ? and expires_ms > 0"
    if db.execute(sql, (tables.encode(addresses), now_ms + LEASE_MS, broker_id, session)).rowcount != 1:
        raise SessionLost(f"session {session} of broker {broker_id} was closed or replaced")
    _set_recovered(db, broker_id, session - 1)


def fence_session(db: Database, now_ms: int, broker_id: str, session: int, gone: bool) -> EndedSession:
    for last in _sessions(db, now_ms, broker_id):
        if last.live and not (gone and last.session == session):
            raise SessionConflict(f"broker {broker_id} is alive, with session {last.session}")
        session = last.session
        close_session(db, now_ms, broker_id, session)
    scope = scope_of_broker(broker_id)
    return EndedSession(broker_id, session, Fence(scope, tables.raise_epoch(db, scope, 0)))


def recovered(db: Database, ended: EndedSession, lock: str) -> None:
    tables.check_fence(db, ended.fence, lock)
    _set_recovered(db, ended.broker_id, ended.session)


def _set_recovered(db: Database, broker_id: str, session: int) -> None:
    if session > _recovered(db, broker_id):
        tables.put_value(db, _RECOVERED + broker_id, str(session).encode())


def _recovered(db: Database, broker_id: str) -> int:
    """The last session of a broker whose cursor log was recovered."""
    (session,) = db.execute("select value from value where key = ?", (_RECOVERED + broker_id,)).fetchone() or (0,)
    return int(session)


def close_session(db: Database, now_ms: int, broker_id: str, session: int) -> None:
    """Keeps when, below zero: nothing renews it."""
    sql = "update broker_session set expires_ms = ? where broker_id = ? and session = ? and expires_ms > 0"
    db.execute(sql, (-now_ms, broker_id, session))


def acquire_bundle(db: Database, now_ms: int, bundle: NamespaceBundle, broker_id: str, session: int, pinned: bool) -> OwnershipRow:
    live = {row.broker_id: row.session for row in _sessions(db, now_ms) if row.live}
    if live.get(broker_id) != session:
        raise SessionLost(f"session {session} of broker {broker_id} is not live")
    sql = f"select {_COLUMNS} from bundle_owner where namespace = ? and lower < ? and upper > ? order by lower"
    overlapping = [_row(row) for row in db.execute(sql, (bundle.namespace, bundle.upper, bundle.lower))]
    for row in overlapping:
        owned = row.state != "free" and live.get(row.broker_id) == row.session
        if owned and row.broker_id == broker_id and row.bundle == bundle:
            return row
        if owned or (row.pinned and row.broker_id != broker_id):
            whose = f"broker {row.broker_id}, session {row.session}" + ("" if owned else ", which is gone and has its log")
            raise BundleRefused(f"{row.bundle} belongs to {whose}", row)
        if row.broker_id not in ("", broker_id) and row.session > _recovered(db, row.broker_id):
            raise NotRecovered(f"the cursors of {row.bundle} are in the log of broker {row.broker_id}, which is gone", row)
    # What is stored of a part of them is pinned where it is.
    pinned = pinned or any(row.pinned for row in overlapping)
    _forget(db, overlapping)
    return _insert(db, bundle, broker_id, session, max((row.epoch for row in overlapping), default=0), pinned)


def drain_bundle(db: Database, row: OwnershipRow) -> OwnershipRow:
    _check(db, row)
    drained = row._replace(state="draining", change=_next_change(db))
    db.execute(
        "update bundle_owner set state = ?, change = ? where namespace = ? and lower = ? and upper = ?",
        (drained.state, drained.change, *row.bundle),
    )
    return drained


def hand_over_bundle(db: Database, now_ms: int, row: OwnershipRow, broker_id: str) -> OwnershipRow:
    _check(db, row)
    if row.pinned:
        raise BundleRefused(f"{row.bundle} cannot move: what is stored of it lies in the log of broker {row.broker_id}", row)
    target = _sessions(db, now_ms, broker_id)
    if not target or not target[0].live:
        raise SessionLost(f"broker {broker_id} is not alive")
    _forget(db, [row])
    return _insert(db, row.bundle, broker_id, target[0].session, row.epoch, False)


def release_bundle(db: Database, row: OwnershipRow) -> None:
    _check(db, row)
    _forget(db, [row])
    _insert(db, row.bundle, "", 0, row.epoch, False, "free")


def split_bundle(db: Database, row: OwnershipRow, cuts: Iterable[int]) -> list[OwnershipRow]:
    _check(db, row)
    namespace, lower, upper = row.bundle
    inside = sorted(set(cuts))
    if not inside or not lower < inside[0] <= inside[-1] < upper:
        raise ValueError(f"{row.bundle} cannot be cut at {inside}: cuts lie inside it")
    _forget(db, [row])
    parts = [NamespaceBundle(namespace, *ends) for ends in pairwise((lower, *inside, upper))]
    return [_insert(db, part, row.broker_id, row.session, row.epoch, row.pinned, row.state) for part in parts]


def remove_bundle(db: Database, row: OwnershipRow) -> None:
    _check(db, row)
    _forget(db, [row])


def bundles_of(db: Database, namespace: str) -> list[OwnershipRow]:
    sql = f"select {_COLUMNS} from bundle_owner where namespace = ? order by lower"
    return [_row(row) for row in db.execute(sql, (namespace,)).fetchall()]


def release_bundles_of(db: Database, ended: EndedSession, limit: int, lock: str) -> int:
    tables.check_fence(db, ended.fence, lock)
    sql = f"select {_COLUMNS} from bundle_owner where broker_id = ? limit ?"
    rows = [_row(row) for row in db.execute(sql, (ended.broker_id, limit)).fetchall()]
    for row in rows:
        if row.pinned:
            raise BundleRefused(f"what is stored of {row.bundle} lies in the log of broker {row.broker_id}", row)
        release_bundle(db, row)
    return len(rows)


def forget_broker(db: Database, ended: EndedSession, lock: str) -> None:
    tables.check_fence(db, ended.fence, lock)
    db.execute("delete from broker_session where broker_id = ? and expires_ms <= 0", (ended.broker_id,))
    db.execute("delete from value where key = ?", (_RECOVERED + ended.broker_id,))


def ownership_changes(db: Database, now_ms: int, after: int, limit: int = CHANGES_MAX) -> OwnershipChanges:
    if not 1 <= limit <= CHANGES_MAX:
        raise ValueError(f"a page of {limit} changes of ownership: it has 1 to {CHANGES_MAX}")
    sql = f"select {_COLUMNS} from bundle_owner where change > ? order by change limit ?"
    changed = [_row(row) for row in db.execute(sql, (after, limit + 1))]
    more = len(changed) > limit
    page = changed[:limit]
    return OwnershipChanges(page, _sessions(db, now_ms), page[-1].change if page else after, more)


def _check(db: Database, row: OwnershipRow) -> None:
    """Raises `Fenced` unless this row is as it was read: epoch and state."""
    sql = f"select {_COLUMNS} from bundle_owner where namespace = ? and lower = ? and upper = ?"
    stored = db.execute(sql, tuple(row.bundle)).fetchone()
    if stored is None or _row(stored) != row:
        raise Fenced(f"epoch {row.epoch} does not own {row.bundle} any more, or not as it was read")


def _forget(db: Database, rows: list[OwnershipRow]) -> None:
    """Their fences are worth nothing from here on."""
    for row in rows:
        tables.raise_epoch(db, str(row.bundle), row.epoch)
        db.execute("delete from bundle_owner where namespace = ? and lower = ? and upper = ?", tuple(row.bundle))


def _insert(
    db: Database, bundle: NamespaceBundle, broker_id: str, session: int, after: int, pinned: bool, state: State = "owned"
) -> OwnershipRow:
    epoch = tables.raise_epoch(db, str(bundle), after)
    row = OwnershipRow(bundle, broker_id, session, epoch, state, pinned, _next_change(db))
    sql = f"insert into bundle_owner ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    db.execute(sql, (*bundle, broker_id, session, epoch, state, int(pinned), row.change))
    return row


def _next_change(db: Database) -> int:
    """Whoever changes ownership holds the row of the counter until its commit, so changes become visible in this order."""
    return tables.raise_epoch(db, _CHANGE, 0)


def _row(row: tuple[Any, ...]) -> OwnershipRow:
    namespace, lower, upper, broker_id, session, epoch, state, pinned, change = row
    return OwnershipRow(NamespaceBundle(namespace, lower, upper), broker_id, session, epoch, state, bool(pinned), change)


def _sessions(db: Database, now_ms: int, broker_id: str = "") -> list[BrokerSession]:
    """Of one broker, or all."""
    sql = f"select * from broker_session {'where broker_id = ? ' if broker_id else ''}order by broker_id"
    rows = db.execute(sql, (broker_id,) if broker_id else ())
    return [
        BrokerSession(name, session, _addresses(name, data), expires_ms > now_ms, expires_ms <= 0)
        for name, session, data, expires_ms in rows
    ]


def _addresses(broker_id: str, data: bytes) -> dict[str, str]:
    try:
        return tables.properties_decoder.decode(data)
    except msgspec.MsgspecError:
        raise StoreError(
            f"the row of broker {broker_id} in broker_session cannot be read, as if it was edited by hand: delete that row, and "
            "start that broker again"
        ) from None


class SqlOwnershipStore:
    """`now_ms` asks the database for the time: brokers' clocks may differ, its own is one. `lock`: see `tables.check_fence`."""

    def __init__(self, thread: CommitThread, now_ms: Callable[[Database], int], lock: str) -> None:
        self._lock = lock
        self._call = thread.call
        self._now_ms = now_ms

    async def _run(self, run: Callable[..., T], *arguments: Any) -> T:
        return await self._call(lambda db: run(db, *arguments), _BUNDLES)

    async def _timed(self, run: Callable[..., T], *arguments: Any, turn: str = _BUNDLES, reads: bool = False) -> T:
        return await self._call(lambda db: run(db, self._now_ms(db), *arguments), turn, reads=reads)

    async def clock_ms(self) -> int:
        """The time of the database."""
        return await self._timed(lambda db, now_ms: now_ms, turn=_SESSIONS, reads=True)

    async def open_session(self, broker_id: str, addresses: dict[str, str], *, replace: bool = False) -> int:
        return await self._timed(open_session, broker_id, addresses, replace, turn=_SESSIONS)

    async def renew_session(self, broker_id: str, session: int) -> None:
        await self._timed(renew_session, broker_id, session, turn=_SESSIONS)

    async def serve(self, broker_id: str, session: int, addresses: dict[str, str]) -> None:
        await self._timed(serve, broker_id, session, addresses, turn=_SESSIONS)

    async def fence_session(self, broker_id: str, session: int, *, gone: bool = False) -> EndedSession:
        return await self._timed(fence_session, broker_id, session, gone, turn=_SESSIONS)

    async def recovered(self, ended: EndedSession) -> None:
        await self._run(recovered, ended, self._lock)

    async def close_session(self, broker_id: str, session: int) -> None:
        await self._timed(close_session, broker_id, session, turn=_SESSIONS)

    async def acquire_bundle(self, bundle: NamespaceBundle, broker_id: str, session: int, *, pinned: bool = False) -> OwnershipRow:
        return await self._timed(acquire_bundle, bundle, broker_id, session, pinned)

    async def drain_bundle(self, row: OwnershipRow) -> OwnershipRow:
        return await self._run(drain_bundle, row)

    async def hand_over_bundle(self, row: OwnershipRow, broker_id: str) -> OwnershipRow:
        return await self._timed(hand_over_bundle, row, broker_id)

    async def release_bundle(self, row: OwnershipRow) -> None:
        await self._run(release_bundle, row)

    async def split_bundle(self, row: OwnershipRow, cuts: list[int]) -> list[OwnershipRow]:
        return await self._run(split_bundle, row, cuts)

    async def remove_bundle(self, row: OwnershipRow) -> None:
        await self._run(remove_bundle, row)

    async def bundles_of(self, namespace: str) -> list[OwnershipRow]:
        return await self._call(lambda db: bundles_of(db, namespace), _BUNDLES, reads=True)

    async def release_bundles_of(self, ended: EndedSession, limit: int = CHANGES_MAX) -> int:
        return await self._run(release_bundles_of, ended, limit, self._lock)

    async def forget_broker(self, ended: EndedSession) -> None:
        await self._run(forget_broker, ended, self._lock)

    async def ownership_changes(self, after: int, limit: int = CHANGES_MAX) -> OwnershipChanges:
        return await self._timed(ownership_changes, after, limit, reads=True)
