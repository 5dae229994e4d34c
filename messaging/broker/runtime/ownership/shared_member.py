"""A broker of several that all store in the same place: it takes over what others leave, and others take over what it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from messaging.broker.core.ownership.lookup import Acquire, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import everywhere
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.clock import passed_s
from messaging.protocol.bundles import Boundaries
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.ownership import DRAINS, NamespaceBundle, NotRecovered, OwnershipStore, SessionConflict, SessionLost

log = structlog.get_logger("broker.ownership")

ACQUIRED_AT_ONCE = 100  # bundles: they share commits


class EndsSessions(Protocol):
    async def end(self, broker_id: str, session: int, gone: bool, owned: Callable[[], Awaitable[Callable[[str], bool]]]) -> None:
        """Ends a broker's session and recovers its log. `owned`: asked once that broker can change nothing more, whether a topic is
        its own. Raises `SessionConflict` if it is alive, `StoreError`."""


class SharedMember(FleetMember):
    """`ends`: ends and recovers other brokers."""

    pins = False

    def __init__(
        self,
        store: OwnershipStore,
        broker_id: str,
        boundaries_of: Callable[[str], Boundaries],
        ends: EndsSessions,
        *,
        now_s: Callable[[], float] = passed_s,
        owners: OwnerMap | None = None,
        allowed: Callable[[str, list[str]], list[str]] = everywhere,
    ) -> None:
        super().__init__(store, broker_id, boundaries_of, now_s=now_s, owners=owners, allowed=allowed)
        self.lost = asyncio.Event()  # this broker was ended by another one: it owns nothing any more, and never will
        self._ends = ends
        self._ending: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._adopted: object = None  # what was known when there was nothing more to adopt

    async def resume(self, session: int) -> None:
        """Goes on with a session that was opened for this process. Raises `StoreError`."""
        self._session = session
        self._lease.renewed(self._now_s(), self._now_s())
        await self.look()

    async def serve(self, addresses: dict[str, str]) -> None:
        """What earlier sessions left is recovered, and others send clients to `addresses` from now on; what those sessions owned,
        and nobody else has acquired, is this one's again. Raises `StoreError`."""
        self._addresses = addresses
        await self._store.serve(self.broker_id, self._session, addresses)
        await self.look()
        former = [row.bundle for row in self.owners.owned_by(self.broker_id) if row.session != self._session]
        for start in range(0, len(former), ACQUIRED_AT_ONCE):
            outcomes = await asyncio.gather(*map(self._acquire, former[start : start + ACQUIRED_AT_ONCE]), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException) and not isinstance(outcome, StoreError):
                    raise outcome

    @property
    def drains(self) -> bool:
        """Whether it takes no bundles any more, as the metadata has it."""
        own = self.owners.sessions.get(self.broker_id)
        return own is not None and own.session == self._session and own.drains

    async def take_no_more(self) -> None:
        """Others are to give it no bundles from now on. Raises `StoreError`; whether they know of it is seen at the next look."""
        await self._store.serve(self.broker_id, self._session, self._addresses | {DRAINS: "1"})
        await self.look()

    async def adopt(self) -> None:
        """Acquires what nobody alive owns any more and placement gives to this broker: what it holds is metered, and kept as
        policies ask, although nobody uses it. Raises `StoreError`."""
        seen = (self.owners.change, [each for each in self.owners.sessions.values() if each.serves])
        if seen == self._adopted or not self._lease.may_serve(self._now_s()):
            return
        mine = []
        for row in self.owners.rows_without_owner():
            decided = answer(
                self.owners, self.broker_id, self._session, row.bundle, row.bundle.lower, sent=False, allowed=self.allowed
            )
            if isinstance(decided, Acquire):
                mine.append(decided.bundle)
        for start in range(0, len(mine), ACQUIRED_AT_ONCE):
            await asyncio.gather(*map(self._acquire, mine[start : start + ACQUIRED_AT_ONCE]))
        if not mine:  # what one of them lacked, such as a log that was recovered only now, may be no change of a row
            self._adopted = seen

    async def end_session(self, broker_id: str, session: int, *, gone: bool = False) -> None:
        """Ends another broker, unless it is alive after all, and recovers what it acknowledged. `gone`: its process is known to be.
        Callers at the same time share one call. Raises `StoreError`."""
        key = (broker_id, session)
        ending = self._ending.get(key)
        if ending is None:
            ending = self._ending[key] = asyncio.get_running_loop().create_task(
                self._end_session(broker_id, session, gone), name=f"end session {session} of {broker_id}"
            )
            ending.add_done_callback(lambda _: self._ending.pop(key, None))
        await asyncio.shield(ending)

    async def _end_session(self, broker_id: str, session: int, gone: bool) -> None:
        async def owned() -> Callable[[str], bool]:
            await self.look()
            return lambda topic: self.owners.fence_of(topic, broker_id) is not None

        try:
            await self._ends.end(broker_id, session, gone, owned)
        except SessionConflict:  # it is back, or was only late
            pass
        await self.look()

    async def _before_acquiring(self, name: TopicName, bundle: NamespaceBundle) -> None:
        """Nothing is for good: it can move."""

    async def _not_recovered(self, error: NotRecovered) -> None:
        other = self.owners.sessions.get(error.row.broker_id)
        if other is not None and not other.closed and not self._lease.may_end_others(self._now_s()):
            raise error  # the metadata did not answer until a moment ago: that broker may be about to renew
        await self.end_session(error.row.broker_id, error.row.session)

    async def _session_was_lost(self, error: SessionLost) -> None:
        """Another broker took us for dead: what we owned is others', and our log is fenced."""
        log.critical("session.lost", broker_id=self.broker_id, session=self._session)
        self.lost.set()
        raise error
