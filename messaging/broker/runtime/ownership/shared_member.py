"""A broker of several that all store in the same place: it takes over what others leave, and others take over what it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

import structlog

from messaging.background import shared
from messaging.broker.core.ownership.lookup import Acquire, There, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.log_recovery import Forgotten
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.ownership.rivals import Rivals
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.clock import passed_s
from messaging.errors import Conflict, NotFound, NotReady
from messaging.protocol.bundles import Boundaries, position_of
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Fenced, StoreError
from messaging.storage.ownership import (
    DRAINS,
    UNTOLD,
    EndedSession,
    NamespaceBundle,
    NotRecovered,
    OwnershipRow,
    OwnershipStore,
    RecoveryFailed,
    SessionConflict,
    SessionLost,
)

log = structlog.get_logger("broker.ownership")

ACQUIRED_AT_ONCE = 100  # bundles: they share commits
LOOKED_AT_ONCE = 100  # rows in a turn of the loop
RETRY_S, RETRY_S_MAX = 1.0, 60.0  # after what a broker left could not be recovered
HAND_OVER_S = 4.0  # so long whoever asks for a topic waits while its bundle is handed over
RIVAL_LOOK_S = 0.2  # between two looks while another broker recovers one that is gone


class EndsSessions(Protocol):
    async def end(
        self,
        broker_id: str,
        session: int,
        gone: bool,
        owned: Callable[[], Awaitable[Callable[[str], bool]]],
        *,
        accept_loss: bool = False,
    ) -> EndedSession:
        """Ends a broker's session and recovers its log. `owned`: asked once that broker can change nothing more, whether a topic is
        its own. `accept_loss`: of what cannot be read, messages come again. Raises `SessionConflict` if it is alive,
        `RecoveryFailed`, `StoreError`."""

    async def forget(self, ended: EndedSession) -> Forgotten:
        """What was of a broker that never comes back is nobody's, or is deleted. Raises `StoreError`."""

    async def why_unrecovered(self, broker_id: str) -> str:
        """Why the last attempt to recover what a broker left failed; "": it did not. Raises `StoreError`."""


class FailedRecovery(NamedTuple):
    """`retry_s`: by the clock of the member."""

    error: RecoveryFailed
    attempts: int
    retry_s: float


class SharedMember(FleetMember):
    """`ends`: ends and recovers other brokers. `knows_tenants`: whether it can serve their clients."""

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
        rules: PlacementRules = EVERYWHERE,
        knows_tenants: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(store, broker_id, boundaries_of, now_s=now_s, owners=owners, rules=rules)
        self.untold = False  # others give it nothing until it knows the tenants
        self._knows_tenants = knows_tenants
        self._telling = asyncio.Lock()  # what others are to know of it
        self.lost = asyncio.Event()  # this broker was ended by another one: it owns nothing any more, and never will
        self.leaving: set[NamespaceBundle] = set()  # bundles that are to be handed over, and are served until others know
        self._ends = ends
        self._ending: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._rivals = Rivals(now_s)
        self.unrecovered: dict[str, FailedRecovery] = {}  # by broker, what this one could not recover
        self._adopted: object = None  # what was known when there was nothing more to adopt

    async def resume(self, session: int) -> None:
        """Goes on with a session that was opened for this process. Raises `StoreError`."""
        self._session = session
        self._lease.renewed(self._now_s(), self._now_s())
        await self.look()

    async def serve(self, addresses: dict[str, str]) -> None:
        """What earlier sessions left is recovered, and others send clients to `addresses` from now on; what those sessions owned,
        and nobody else has acquired, is this one's again, unless the rules changed. Before it knows the tenants it refuses their
        clients: then it is left to others until `take_part`. Raises `StoreError`."""
        self._addresses = addresses
        async with self._telling:
            self.untold = not self._knows_tenants()
            await self._tell(drains=False)
            untold = self.untold
        if not untold:
            await self._take_former()

    async def take_part(self) -> None:
        """Does what `serve` left, once it can. Raises `StoreError`."""
        async with self._telling:
            if not self.untold or not self._knows_tenants():
                return
            self.untold = False
            try:
                await self._tell(drains=self.drains)
            except StoreError:
                self.untold = True
                raise
        await self._take_former()

    async def follow(self) -> None:
        await super().follow()
        await self.take_part()

    async def _tell(self, *, drains: bool) -> None:
        marks = {DRAINS: "1"} if drains else {}
        if self.untold:
            marks[UNTOLD] = "1"
        await self._store.serve(self.broker_id, self._session, self._addresses | marks)
        await self.look()

    async def _take_former(self) -> None:
        rows = [row for row in self.owners.owned_by(self.broker_id) if row.session != self._session]
        former = [row.bundle for row in rows if self.rules.permits(row.bundle.namespace, self.broker_id)]
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
        async with self._telling:
            await self._tell(drains=True)

    async def take_again(self) -> None:
        """The opposite of `take_no_more`. Raises the same."""
        async with self._telling:
            await self._tell(drains=False)

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        """Waits while the topic's bundle is handed over. A client that was refused would come back after a backoff that doubles,
        and Apache's in C++ closes its connection first, on which it has other topics, too."""
        waits_until_s = self._now_s() + HAND_OVER_S
        while self.renews and self._handed_over(name) and self._now_s() < waits_until_s:
            await self._look_now()
        return await super().where(name, sent=sent)

    async def _where_now(self, name: TopicName, sent: bool) -> Elsewhere | None:
        return await super().where(name, sent=sent)

    async def _news(self, name: TopicName) -> None:
        if self.renews and self._handed_over(name):  # that takes a fraction of a second
            await self._look_now()
        else:
            await super()._news(name)

    async def serves(self, name: TopicName) -> bool:
        return self._handed_over(name) is None and await super().serves(name)

    def _handed_over(self, name: TopicName) -> OwnershipRow | None:
        """The row of the topic's bundle, if a live broker gives that away, as far as is known."""
        row = self.owners.row_at(str(name.namespace), position_of(str(name)))
        return row if row is not None and row.state == "draining" and self.owners.is_live(row) else None

    async def require(self, name: TopicName) -> None:
        """Who gives a bundle away tells its clients at once, and they are here before the rows are looked at the next time: so
        there is one look, and whoever is wrong here after it is refused. Waiting is for look-ups: a producer or consumer that
        waited would count among the requests that its connection may have under way. The one that gives serves whoever looked up
        before, and refuses at once from when it closes topics: its move waits for those that are being opened."""
        if name.tenant == OWN_TENANT:
            return
        row = self._handed_over(name)
        if self.renews and row is not None and row.broker_id == self.broker_id:
            if row.bundle in self.leaving:
                return
            raise _moves(name)
        if self.renews and (row is not None or await self._where_now(name, True) is not None):
            await self._look_now()
            if self._handed_over(name) is not None:
                raise _moves(name)
        await super().require(name)

    async def adopt(self) -> None:
        """Acquires what nobody alive owns any more and placement gives to this broker: what it holds is metered, and kept as
        policies ask, although nobody uses it. What cannot be acquired holds up nothing else. Raises `StoreError`."""
        seen = (self.owners.version, self.rules.version, [each for each in self.owners.sessions.values() if each.serves])
        if seen == self._adopted or not self.renews:
            return
        mine: list[NamespaceBundle] = []
        left = 0
        rows = sorted([row async for row in self._rows_without_owner()])  # all brokers in one order, so that they agree
        for number, row in enumerate(rows, 1):
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            decided = answer(self.owners, self.broker_id, self._session, row.bundle, row.bundle.lower, sent=False, rules=self.rules)
            if isinstance(decided, Acquire):
                self.owners.expect(decided.bundle, self.broker_id)
                mine.append(decided.bundle)
            elif isinstance(decided, There) and not decided.owner:
                self.owners.expect(row.bundle, decided.broker.broker_id)
            if len(mine) == ACQUIRED_AT_ONCE:
                left += await self._acquire_some(mine)
                mine = []
        left += await self._acquire_some(mine)
        if not left:
            self._adopted = seen

    async def _rows_without_owner(self) -> AsyncIterator[OwnershipRow]:
        """As they are when they are looked at, a few to a turn of the loop."""
        looked = 0
        for namespace in list(self.owners.namespaces):
            for row in self.owners.rows_of(namespace):
                looked += 1
                if looked % LOOKED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if not self.owners.is_live(row):
                    yield row

    async def _acquire_some(self, bundles: list[NamespaceBundle]) -> int:
        """How many there were: what one of them lacked, such as a log that was recovered only now, may be no change of a row."""
        outcomes = await asyncio.gather(*map(self._acquire, bundles), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NotRecovered | RecoveryFailed):
                raise outcome
        return len(bundles)

    # --- ending others

    async def end_session(self, broker_id: str, session: int, *, gone: bool = False) -> None:
        """Ends another broker, unless it is alive after all, and recovers what it acknowledged. `gone`: its process is known to be.
        Callers at the same time share one call; where it failed, it is not tried again at once. While another broker does the same,
        that is left to do it, and this returns after a moment. Raises `RecoveryFailed`, `StoreError`."""
        failed = self.unrecovered.get(broker_id)
        if failed is not None and self._now_s() < failed.retry_s:
            raise failed.error
        key = (broker_id, session)
        ending = self._ending.get(key)
        if ending is None:
            work = self._end_session(broker_id, session, gone)
            name = f"end session {session} of {broker_id}"
            ending = self._ending[key] = shared(asyncio.get_running_loop().create_task(work, name=name))
            ending.add_done_callback(lambda _: self._ending.pop(key, None))
        await asyncio.shield(ending)

    async def _end_session(self, broker_id: str, session: int, gone: bool) -> None:
        if self._rivals.at_work(broker_id, session):
            await asyncio.sleep(RIVAL_LOOK_S)
        else:
            try:
                await self._end(broker_id, session, gone=gone)
            except SessionConflict:  # it is back, or was only late
                pass
            except Fenced as error:
                log.info("ownership.left_to_another", gone_broker_id=broker_id, gone_session=session, error=str(error))
                self._rivals.leave(broker_id, session)
        await self.look()

    async def _end(self, broker_id: str, session: int, *, gone: bool = False, accept_loss: bool = False) -> EndedSession:
        async def owned() -> Callable[[str], bool]:
            await self.look()
            return lambda topic: self.owners.fence_of(topic, broker_id) is not None

        try:
            ended = await self._ends.end(broker_id, session, gone, owned, accept_loss=accept_loss)
        except RecoveryFailed as error:
            self._failed(broker_id, error)
            raise
        self.unrecovered.pop(broker_id, None)
        return ended

    def _failed(self, broker_id: str, error: RecoveryFailed) -> None:
        before = self.unrecovered.get(broker_id)
        attempts = 1 if before is None else before.attempts + 1
        retry_s = self._now_s() + min(RETRY_S * 2**attempts, RETRY_S_MAX)
        self.unrecovered[broker_id] = FailedRecovery(error, attempts, retry_s)
        if before is None or str(before.error) != str(error):
            log.critical("ownership.not_recovered", gone_broker_id=broker_id, error=str(error), to_do=to_do(broker_id))

    async def _not_recovered(self, error: NotRecovered) -> None:
        other = self.owners.sessions.get(error.row.broker_id)
        if other is not None and not other.closed and not self._lease.may_end_others(self._now_s()):
            raise error  # the metadata did not answer until a moment ago: that broker may be about to renew
        key = (error.row.broker_id, error.row.session)
        by_another = other is not None and other.closed and key not in self._ending and self.other_sessions()
        if by_another and not self._rivals.known(*key):  # whoever closed it recovers it
            self._rivals.leave(*key)
        await self.end_session(*key)

    def still_unrecovered(self) -> list[str]:
        """The brokers that this one could not recover, whose bundles nobody has yet."""
        return [broker_id for broker_id in self.unrecovered if self.owners.bundles_of[broker_id]]

    async def why_unrecovered(self, broker_id: str) -> str:
        """Why what a broker left could not be recovered, whoever tried it, and what to do; "": nothing is known of that. Raises
        `StoreError`."""
        why = await self._ends.why_unrecovered(broker_id)
        return f"what it left cannot be recovered: {why}: {to_do(broker_id)}" if why else ""

    # --- what operators ask for

    async def recover(self, broker_id: str, *, accept_loss: bool) -> None:
        """What a broker left that is gone, now. Raises `NotFound`, `Conflict`, `NotReady`."""
        await self._of_gone(broker_id, accept_loss)
        await self.refresh()

    async def forget(self, broker_id: str) -> Forgotten:
        """It never comes back: others take over what it owned, and what is left of it is deleted. Raises `NotFound`, `Conflict`,
        `NotReady`."""
        ended = await self._of_gone(broker_id, accept_loss=False)
        try:
            forgotten = await self._ends.forget(ended)
        except StoreError as error:
            raise NotReady(f"broker {broker_id} could not be forgotten: {error}; try again") from None
        await self.refresh()
        return forgotten

    async def _of_gone(self, broker_id: str, accept_loss: bool) -> EndedSession:
        await self.refresh()
        session = self.owners.sessions.get(broker_id)
        if session is None and not self.owners.owned_by(broker_id):
            raise NotFound(f"there is no broker {broker_id} among {', '.join(sorted(self.owners.sessions))}")
        if session is not None and session.live:
            raise Conflict(f"broker {broker_id} is alive: stop it first")
        try:
            return await self._end(broker_id, session.session if session is not None else 0, accept_loss=accept_loss)
        except SessionConflict as error:
            raise Conflict(f"{error}: stop it first") from None
        except RecoveryFailed as error:
            raise NotReady(f"{error}: {to_do(broker_id)}") from None
        except StoreError as error:
            raise NotReady(f"broker {broker_id} could not be ended: {error}; try again") from None

    async def stop(self) -> None:
        for ending in list(self._ending.values()):
            ending.cancel()
        await super().stop()

    async def _before_acquiring(self, name: TopicName, bundle: NamespaceBundle) -> None:
        """Nothing is for good: it can move."""

    async def _session_was_lost(self, error: SessionLost) -> None:
        """Another broker took us for dead: what we owned is others', and our log is fenced."""
        log.critical("session.lost", broker_id=self.broker_id, session=self._session)
        self.lost.set()
        raise error


def _moves(name: TopicName) -> NotReady:
    return NotReady(f"topic {name} moves to another broker: look it up again")


def to_do(broker_id: str) -> str:
    """Where what a broker left cannot be recovered."""
    return (
        "repair what keeps the storage from being read, and it is tried again within a minute; or run `magnetar brokers recover "
        f"{broker_id} --accept-loss`, after which some of its messages come again that were acknowledged"
    )
