"""One broker of several: it keeps its session alive, follows who owns what, and acquires what nobody has.

There are two kinds, by where brokers store: `pinned_member.py` and `shared_member.py`. What both decide is in
`messaging.broker.core.ownership`, from a copy of the rows that may be old; the store decides again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import structlog

from messaging.background import BackgroundLoops, shared
from messaging.broker.core.ownership.lease import RENEW_S, Lease
from messaging.broker.core.ownership.lookup import Acquire, Answer, Here, NotNow, There, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.broker.core.ownership.ranges import OwnedBundles
from messaging.broker.runtime.ownership.held_lookups import HeldLookups
from messaging.broker.runtime.ownership.owners import ANYBODY, Elsewhere, LookupClient
from messaging.broker.runtime.topics.services import OWN_TENANT
from messaging.clock import passed_s
from messaging.errors import NotReady
from messaging.protocol.bundles import Boundaries, bundle_of, position_of
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import StoreError
from messaging.storage.ownership import (
    BrokerSession,
    BundleRefused,
    NamespaceBundle,
    NotRecovered,
    OwnershipStore,
    SessionLost,
)

log = structlog.get_logger("broker.ownership")

RENEWS = "renew_session"  # the loop by which a broker is taken for alive
LOOK_S = 1.0  # how old the copy of the rows may be; who finds it wrong, or places a bundle, looks at once
LOOK_AGAIN_S = 0.02  # between two looks that clients ask for
ATTEMPTS_MAX = 4  # to acquire a bundle that others want as well
HELD_S = 10.0  # so long a look-up waits for an owner that is about to be there; clients give up after 30 s


class NotYet(NotReady):
    """The topic will be served within seconds, as it seems."""


class FleetMember(ABC):
    """Implements `Owners`. `boundaries_of`: of a namespace's bundles. `now_s` never goes back, also counts the sleep of a machine.
    `owners`: its copy of the rows. `rules`: where bundles may be."""

    pins: ClassVar[bool]  # whether what it acquires is its own for good

    def __init__(
        self,
        store: OwnershipStore,
        broker_id: str,
        boundaries_of: Callable[[str], Boundaries],
        *,
        now_s: Callable[[], float] = passed_s,
        owners: OwnerMap | None = None,
        rules: PlacementRules = EVERYWHERE,
    ) -> None:
        self.owners = owners or OwnerMap()
        self.broker_id = broker_id
        self.rules = rules
        self._store = store
        self._boundaries_of = boundaries_of
        self._now_s = now_s
        self._addresses: dict[str, str] = {}
        self.goes_on: BrokerSession | None = None  # one that is well, once this one cannot renew and is over to the others
        self._session = 0
        self._lease = Lease(now_s())
        self._acquiring: dict[NamespaceBundle, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[None] | None = None  # one that has not begun
        self._looked_s = now_s() - LOOK_AGAIN_S
        self._held = HeldLookups()
        self._seen: object = None  # by the last look

    # --- what each kind does in its way

    @abstractmethod
    async def _before_acquiring(self, name: TopicName, bundle: NamespaceBundle) -> None:
        """Nobody owns the bundle of this topic, and it is this broker's turn. Raises `NotReady`."""

    @abstractmethod
    async def _not_recovered(self, error: NotRecovered) -> None:
        """The former owner of a bundle is gone, and its log was not recovered. Raises `StoreError`."""

    @abstractmethod
    async def _session_was_lost(self, error: SessionLost) -> None:
        """Raises `StoreError`."""

    # --- its session

    @property
    def session(self) -> int:
        return self._session

    @property
    def renews(self) -> bool:
        """Whether the metadata answered lately. What this broker knows of others is old otherwise, and so is that it is alive."""
        return self._lease.may_serve(self._now_s())

    def keep(self, background: BackgroundLoops) -> None:
        """Renews the session and looks at what others own, from now on."""
        for seconds, name, act in ((RENEW_S, RENEWS, self.renew), (LOOK_S, "follow_owners", self.follow)):
            loop = background.every(seconds, name, act, retry_s_max=RENEW_S)  # whoever is late to renew is taken for dead
            self._loops.append(loop)

    async def stop(self) -> None:
        """Others learn at once that this broker is gone. Never raises."""
        for task in (*self._acquiring.values(), *self._loops):
            task.cancel()
        try:
            await self._store.close_session(self.broker_id, self._session)
        except StoreError as error:  # it expires
            log.warning("session.not_closed", error=str(error))

    # --- asking

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        """What is placed anew is placed by what all own now: of topics that are used one after the other each goes where the last
        one is not, whichever brokers are asked. Whoever sends on what was sent here knows it as well: else two would
        send it to each other."""
        if self._is_placed_anew(name, sent):
            await self._look_now()
        for _ in range(ATTEMPTS_MAX):
            decided = self._decide(name, sent)
            if isinstance(decided, Here):
                return None
            if isinstance(decided, There):
                if not decided.owner:
                    self.owners.expect(self._bundle_of(name), decided.broker.broker_id)
                return Elsewhere(decided.broker.addresses, decided.owner)
            if isinstance(decided, NotNow):
                refused = NotYet if decided.passes else NotReady
                raise refused(f"topic {name} is not served now, as {decided.why}; try again in a moment")
            self.owners.expect(decided.bundle, self.broker_id)
            await self._before_acquiring(name, decided.bundle)
            if self._decide(name, sent) == decided:
                await self._acquire_once(decided.bundle)
        raise NotYet(f"topic {name} is not served now: several brokers are taking over its bundle; try again in a moment")

    async def found(self, name: TopicName, *, sent: bool = False, client: LookupClient = ANYBODY) -> Elsewhere | None:
        until_s = self._now_s() + HELD_S
        try:
            return await self._where_now(name, sent)
        except NotYet:
            with client.place() as of_client, self._held.place(name.tenant) as of_tenant:
                while of_client and of_tenant and client.wanted() and self._now_s() < until_s:
                    await self._news(name)
                    with suppress(NotYet):
                        return await self._where_now(name, sent)
            raise

    async def _where_now(self, name: TopicName, sent: bool) -> Elsewhere | None:
        """As `where`, but whoever asks waits by itself for what is `NotYet`."""
        return await self.where(name, sent=sent)

    async def _news(self, name: TopicName) -> None:
        """Returns when the topic may be served. Raises `NotReady`."""
        await self._held.news()

    async def require(self, name: TopicName) -> None:
        if name.tenant == OWN_TENANT:  # each broker has its own
            return
        elsewhere = await self._where_now(name, True)
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
        if not self.renews:
            if self.goes_on is not None:
                return There(self.goes_on, owner=False)
            return NotNow("this broker cannot renew its session in the metadata")
        return answer(
            self.owners, self.broker_id, self._session, self._bundle_of(name), position_of(str(name)), sent=sent, rules=self.rules
        )

    def _is_placed_anew(self, name: TopicName, sent: bool) -> bool:
        """Nobody owns the topic's bundle, nor did this broker decide a moment ago who is to. `sent`: it is to be another one."""
        if not self.renews:
            return False
        decided = self._decide(name, sent)
        if sent:
            return isinstance(decided, There) and not decided.owner
        unowned = isinstance(decided, Acquire) or (isinstance(decided, There) and not decided.owner)
        return unowned and self.owners.expected(self._bundle_of(name)) is None

    def _bundle_of(self, name: TopicName) -> NamespaceBundle:
        namespace = str(name.namespace)
        return NamespaceBundle(namespace, *bundle_of(self._boundaries_of(namespace), str(name)))

    def others(self, kind: str) -> list[str]:
        return [session.addresses[kind] for session in self.other_sessions() if session.serves]

    def other_sessions(self) -> list[BrokerSession]:
        """Those of other brokers that are alive, as far as is known."""
        return [each for each in self.owners.sessions.values() if each.live and each.broker_id != self.broker_id]

    def name_of(self, rpc_url: str) -> str:
        """What errors call another broker: tenants read them, whom its address does not concern."""
        sessions = [*self.owners.sessions.values()]  # a copy: other threads ask, too
        sessions.sort(key=lambda each: each.live)
        ids = {each.addresses.get("rpc_url"): each.broker_id for each in sessions}  # of two with one address, one that lives
        return f"broker {ids[rpc_url]}" if rpc_url in ids else "another broker"

    def absent(self) -> list[str]:
        """Ids of brokers that are away and whose topics nobody else serves, as far as is known."""
        away = [each.broker_id for each in self.owners.sessions.values() if self.pins and not each.live]
        return sorted(broker_id for broker_id in away if self.owners.owned_by(broker_id))

    def known_sessions(self) -> list[BrokerSession]:
        """All brokers', by id. Raises `NotReady` once this one cannot renew its own."""
        if not self.renews:
            raise NotReady("this broker cannot renew its session in the metadata, and does not know who is alive: ask another one")
        return sorted(self.owners.sessions.values())

    def owned_namespaces(self) -> OwnedBundles:
        return OwnedBundles(self.owners.owned_by(self.broker_id), OWN_TENANT)

    # --- owning

    async def _acquire_once(self, bundle: NamespaceBundle) -> None:
        """Callers at the same time share one call. Raises `NotReady`."""
        acquiring = self._acquiring.get(bundle)
        if acquiring is None:
            work = asyncio.get_running_loop().create_task(self._acquire(bundle), name=f"own {bundle}")
            acquiring = self._acquiring[bundle] = shared(work)
            acquiring.add_done_callback(lambda _: self._acquiring.pop(bundle, None))
        try:
            await asyncio.shield(acquiring)
        except StoreError as error:
            refused = NotYet if isinstance(error, NotRecovered) else NotReady
            raise refused(f"bundle {bundle} cannot be acquired: {error}; try again in a moment") from None

    async def refresh(self) -> None:
        """What others own and who is alive, as the metadata has it now. Raises `NotReady`."""
        try:
            await self.look()
        except StoreError as error:
            raise NotReady(f"who serves which topic cannot be read: {error}; try again in a moment") from None

    async def _acquire(self, bundle: NamespaceBundle) -> None:
        try:
            self.owners.put(await self._store.acquire_bundle(bundle, self.broker_id, self._session, pinned=self.pins))
        except BundleRefused as error:  # its owner is new to us
            await self.look()
            self.owners.put(error.row)  # also where it is no change since the last look
        except NotRecovered as error:
            await self._not_recovered(error)
        except SessionLost:  # or only not renewed in time
            await self.renew()

    # --- following

    async def renew(self) -> None:
        """Raises `StoreError`."""
        begun_s = self._now_s()
        try:
            await self._store.renew_session(self.broker_id, self._session)
        except SessionLost as error:
            await self._session_was_lost(error)
        except StoreError:
            self._lease.failed()
            raise
        else:
            self._lease.renewed(begun_s, self._now_s())

    async def follow(self) -> None:
        """Raises `StoreError`."""
        await self.look()
        self.owners.forget_expected()

    async def _look_now(self) -> None:
        """A look that begins after this call. All who come before it begins share it: however many clients come to the wrong
        broker, the database is asked once in `LOOK_AGAIN_S`. Raises `NotReady`."""
        if self._next_look is None:
            self._next_look = shared(asyncio.get_running_loop().create_task(self._look_next(), name="look at owners"))
        await asyncio.shield(self._next_look)

    async def _look_next(self) -> None:
        async with self._looking:
            await asyncio.sleep(max(0.0, self._looked_s + LOOK_AGAIN_S - self._now_s()))
            self._next_look, self._looked_s = None, self._now_s()
            await self.refresh()

    async def look(self) -> None:
        """Raises `StoreError`."""
        more = True
        while more:
            changes = await self._store.ownership_changes(self.owners.change)
            self.owners.apply(changes)
            more = changes.more
        self._tell_news()

    def refused_by(self, others: set[tuple[str, int]]) -> None:
        """The broker and session of those that run no more, though their leases have not ended: nobody is sent there."""
        if others != self.owners.refusing:
            self.owners.refusing = others
            self._tell_news()

    def _tell_news(self) -> None:
        """Look-ups that wait ask again, if there is anything new."""
        seen, self._seen = self._seen, (self.owners.version, list(self.owners.sessions.values()), frozenset(self.owners.refusing))
        if seen != self._seen:
            self._held.tell()
