"""One broker of several: it keeps its session alive, follows who owns what, and acquires what nobody has.

Where each broker has a log of its own, on one machine, what it acquires is pinned: it stays its own for good, and waits for it
while it is gone. Where all store in the same place, others take it over.

What it decides is in `messaging.broker.core.ownership`, from a copy of the rows that may be old; the store decides again.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.ownership.lease import RENEW_S, Lease
from messaging.broker.core.ownership.lookup import Acquire, Answer, Here, NotNow, There, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import everywhere
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.errors import NotReady
from messaging.protocol.bundles import Boundaries, Bundle, bundle_of, position_of
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.meta_store import namespace_of, tenant_of
from messaging.storage.ownership import (
    DRAINS,
    BrokerSession,
    BundleRefused,
    NamespaceBundle,
    NotRecovered,
    OwnershipRow,
    OwnershipStore,
    SessionConflict,
    SessionLost,
)
from messaging.storage.recycled_topic import original_name

log = structlog.get_logger("broker.ownership")

LOOK_S = 1.0  # how old the copy of the rows may be; who finds it wrong looks at once
OTHERS_S = 10.0  # how long the others may take to start before what nobody owns is divided without them
ACQUIRED_AT_ONCE = 100  # bundles: they share commits
ATTEMPTS_MAX = 4  # to acquire a bundle that others want as well


class OwnedBundles:
    """The bundles of some rows, as they are now."""

    def __init__(self, rows: list[OwnershipRow]) -> None:
        self._bundles: defaultdict[str, list[Bundle]] = defaultdict(list)
        for row in sorted(rows):
            self._bundles[row.bundle.namespace].append(Bundle(*row.bundle[1:]))

    def has(self, topic: str) -> bool:
        name = original_name(topic)
        bundles, position = self._bundles.get(namespace_of(name), []), position_of(name)
        index = bisect_right(bundles, position, key=lambda bundle: bundle.lower) - 1
        return tenant_of(name) == OWN_TENANT or (index >= 0 and bundles[index].holds(position))


class EndsSessions(Protocol):
    async def end(self, broker_id: str, session: int, gone: bool, owned: Callable[[], Awaitable[Callable[[str], bool]]]) -> None:
        """Ends a broker's session and recovers its log. `owned`: asked once that broker can change nothing more, whether a topic is
        its own. Raises `SessionConflict` if it is alive, `StoreError`."""


class FleetMember:
    """Implements `Owners`. `boundaries_of`: of a namespace's bundles. `now_s` never goes back.

    `shared`: ends and recovers other brokers, where all store in the same place; None: the caller holds the lock of the log that
    `broker_id` names, so a former process of this id is gone, what the broker acquires is pinned, and `brokers` is how many there
    are to be. `owners`: its copy of the rows. `allowed`: which of some brokers may have bundles of a namespace.
    """

    def __init__(
        self,
        store: OwnershipStore,
        broker_id: str,
        boundaries_of: Callable[[str], Boundaries],
        brokers: int,
        *,
        now_s: Callable[[], float] = time.monotonic,
        shared: EndsSessions | None = None,
        owners: OwnerMap | None = None,
        allowed: Callable[[str, list[str]], list[str]] = everywhere,
    ) -> None:
        self.owners = owners or OwnerMap()
        self.lost = asyncio.Event()  # this broker was ended by another one: it owns nothing any more, and never will
        self.broker_id = broker_id
        self.allowed = allowed
        self._shared = shared
        self._adopted: object = None  # what was known when there was nothing more to adopt
        self._ending: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._store = store
        self._boundaries_of = boundaries_of
        self._brokers = brokers
        self._divides_s = now_s() + OTHERS_S
        self._now_s = now_s
        self._addresses: dict[str, str] = {}
        self._session = 0
        self._lease = Lease(now_s())
        self._acquiring: dict[NamespaceBundle, asyncio.Task[None]] = {}

    @property
    def session(self) -> int:
        return self._session

    @property
    def moves_bundles(self) -> bool:
        """Whether what is stored can be served by any broker."""
        return self._shared is not None

    async def resume(self, session: int) -> None:
        """Goes on with a session that was opened for this process. Raises `StoreError`."""
        self._session = session
        self._lease.renewed(self._now_s())
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
        """Whether it takes no bundles any more."""
        return DRAINS in self._addresses

    async def take_no_more(self) -> None:
        """Others are to give it no bundles from now on. Raises `StoreError`."""
        self._addresses |= {DRAINS: "1"}
        await self._store.serve(self.broker_id, self._session, self._addresses)

    async def start(self, addresses: dict[str, str]) -> None:
        """Opens the session, under which others send clients to `addresses`. Raises `StoreError`."""
        self._addresses = addresses
        await self._open_session()

    def keep(self, background: BackgroundLoops) -> None:
        """Renews the session and looks at what others own, from now on."""
        for seconds, name, act in ((RENEW_S, "renew_session", self.renew), (LOOK_S, "follow_owners", self.look)):
            background.every(seconds, name, act, retry_s_max=RENEW_S)  # whoever is late to renew is taken for dead

    async def stop(self) -> None:
        """Others learn at once that this broker is gone. Never raises."""
        for acquiring in list(self._acquiring.values()):
            acquiring.cancel()
        try:
            await self._store.close_session(self.broker_id, self._session)
        except StoreError as error:  # it expires
            log.warning("session.not_closed", error=str(error))

    # --- asking

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        for _ in range(ATTEMPTS_MAX):
            decided = self._decide(name, sent)
            if isinstance(decided, Here):
                return None
            if isinstance(decided, There):
                return Elsewhere(decided.broker.addresses, decided.owner)
            if isinstance(decided, NotNow):
                raise NotReady(f"topic {name} is not served now: {decided.why}; try again in a moment")
            divides = self._shared is None and not self._has_log_of(decided.bundle)
            if divides and not await self._others_are_there():
                raise NotReady(f"topic {name} is not served yet: other brokers of this machine are starting; try again in a moment")
            if self._decide(name, sent) == decided:
                await self._acquire_once(decided.bundle)
        raise NotReady(f"topic {name} is not served now: several brokers are taking over its bundle; try again in a moment")

    async def require(self, name: TopicName) -> None:
        if name.tenant == OWN_TENANT:  # each broker has its own
            return
        elsewhere = await self.where(name, sent=True)
        if elsewhere is not None:
            raise NotReady(
                f"topic {name} is served by another broker, at {elsewhere.addresses.get('broker_url')}: look it up again"
            )

    async def own(self, names: list[TopicName]) -> list[TopicName]:
        return [name for name in names if await self.where(name) is None]

    async def serves(self, name: TopicName) -> bool:
        try:
            return await self.where(name) is None
        except NotReady:
            return False

    def _decide(self, name: TopicName, sent: bool) -> Answer:
        if not self._lease.may_serve(self._now_s()):
            return NotNow("this broker cannot renew its session in the metadata")
        text, namespace = str(name), str(name.namespace)
        bundle = NamespaceBundle(namespace, *bundle_of(self._boundaries_of(namespace), text))
        decided = answer(self.owners, self.broker_id, self._session, bundle, position_of(text), sent=sent, allowed=self.allowed)
        if isinstance(decided, Acquire):
            self.owners.expect(bundle, self.broker_id)
        elif isinstance(decided, There) and not decided.owner:
            self.owners.expect(bundle, decided.broker.broker_id)
        return decided

    def _has_log_of(self, bundle: NamespaceBundle) -> bool:
        """It is nobody else's: there is nothing to divide."""
        return any(row.pinned and row.broker_id == self.broker_id for row in self.owners.overlapping(bundle))

    async def _others_are_there(self) -> bool:
        """Or it was waited for them long enough. The first broker would get everything for good if it did not wait."""
        if self._live() < self._brokers and self._now_s() < self._divides_s:
            await self.refresh()
        return self._live() >= self._brokers or self._now_s() >= self._divides_s

    def others(self, kind: str) -> list[str]:
        return [session.addresses[kind] for session in self.other_sessions() if session.serves]

    def other_sessions(self) -> list[BrokerSession]:
        """Those of other brokers that are alive, as far as is known."""
        return [each for each in self.owners.sessions.values() if each.live and each.broker_id != self.broker_id]

    def _live(self) -> int:
        return sum(session.live for session in self.owners.sessions.values())

    def owned_namespaces(self) -> OwnedBundles:
        return OwnedBundles(self.owners.owned_by(self.broker_id))

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

    # --- owning

    async def claim(self, names: list[str]) -> None:
        """Owns the bundles of these topics that nobody owns: they are in this broker's log since before there were others. Raises
        `StoreError`."""
        for text in names:
            namespace = namespace_of(text)
            if self.owners.row_at(namespace, position_of(text)) is None:
                await self._acquire(NamespaceBundle(namespace, *bundle_of(self._boundaries_of(namespace), text)))

    async def _acquire_once(self, bundle: NamespaceBundle) -> None:
        """Callers at the same time share one call. Raises `NotReady`."""
        acquiring = self._acquiring.get(bundle)
        if acquiring is None:
            acquiring = self._acquiring[bundle] = asyncio.get_running_loop().create_task(
                self._acquire(bundle), name=f"own {bundle}"
            )
            acquiring.add_done_callback(lambda _: self._acquiring.pop(bundle, None))
        try:
            await asyncio.shield(acquiring)
        except StoreError as error:
            raise NotReady(f"bundle {bundle} cannot be acquired: {error}; try again in a moment") from None

    async def refresh(self) -> None:
        """What others own and who is alive, as the metadata has it now. Raises `NotReady`."""
        try:
            await self.look()
        except StoreError as error:
            raise NotReady(f"who serves which topic cannot be read: {error}; try again in a moment") from None

    async def _acquire(self, bundle: NamespaceBundle) -> None:
        try:
            pinned = self._shared is None
            self.owners.put(await self._store.acquire_bundle(bundle, self.broker_id, self._session, pinned=pinned))
        except BundleRefused:  # its owner is new to us
            await self.look()
        except NotRecovered as error:
            await self.end_session(error.row.broker_id, error.row.session)
        except SessionLost:  # or only not renewed in time
            await self.renew()

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
        assert self._shared is not None

        async def owned() -> Callable[[str], bool]:
            await self.look()
            return lambda topic: self.owners.fence_of(topic, broker_id) is not None

        try:
            await self._shared.end(broker_id, session, gone, owned)
        except SessionConflict:  # it is back, or was only late
            pass
        await self.look()

    # --- following

    async def renew(self) -> None:
        """Raises `StoreError`."""
        begun_s = self._now_s()
        try:
            await self._store.renew_session(self.broker_id, self._session)
        except SessionLost:
            if self._shared is not None:  # another broker took us for dead: what we owned is others', and our log is fenced
                log.critical("session.lost", broker_id=self.broker_id, session=self._session)
                self.lost.set()
                raise
            await self._open_session()  # an operator removed it: the log is still ours, and so is what lies in it
        else:
            self._lease.renewed(begun_s)

    async def look(self) -> None:
        """Raises `StoreError`."""
        more = True
        while more:
            changes = await self._store.ownership_changes(self.owners.change)
            self.owners.apply(changes)
            more = changes.more

    async def _open_session(self) -> None:
        begun_s = self._now_s()
        self._session = await self._store.open_session(self.broker_id, self._addresses, replace=True)
        self._lease.renewed(begun_s)
        await self.look()
        log.info("session.opened", broker_id=self.broker_id, session=self._session)
