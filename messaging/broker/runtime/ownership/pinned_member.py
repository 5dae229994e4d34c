"""A broker of several on one machine, each with a log of its own, in which what it acquires stays: nobody else can serve it.

It waits for its broker while that is gone. Whoever acquires first gets it for good, so what nobody has is divided only once all
brokers are there.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.clock import passed_s
from messaging.errors import NotReady
from messaging.protocol.bundles import Boundaries, bundle_of, position_of
from messaging.protocol.names import TopicName
from messaging.storage.meta_store import namespace_of
from messaging.storage.ownership import NamespaceBundle, NotRecovered, OwnershipStore, SessionLost

log = structlog.get_logger("broker.ownership")

OTHERS_S = 10.0  # how long the others may take to start before what nobody owns is divided without them


class PinnedMember(FleetMember):
    """The caller holds the lock of the log that `broker_id` names, so a former process of this id is gone. `brokers`: how many
    there are to be."""

    pins = True

    def __init__(
        self,
        store: OwnershipStore,
        broker_id: str,
        boundaries_of: Callable[[str], Boundaries],
        brokers: int,
        *,
        now_s: Callable[[], float] = passed_s,
        owners: OwnerMap | None = None,
        rules: PlacementRules = EVERYWHERE,
    ) -> None:
        super().__init__(store, broker_id, boundaries_of, now_s=now_s, owners=owners, rules=rules)
        self._brokers = brokers
        self._divides_s = now_s() + OTHERS_S

    async def start(self, addresses: dict[str, str]) -> None:
        """Opens the session, under which others send clients to `addresses`. Raises `StoreError`."""
        self._addresses = addresses
        await self._open_session()

    async def claim(self, names: list[str]) -> None:
        """Owns the bundles of these topics that nobody owns: they are in this broker's log since before there were others. Raises
        `StoreError`."""
        for text in names:
            namespace = namespace_of(text)
            if self.owners.row_at(namespace, position_of(text)) is None:
                await self._acquire(NamespaceBundle(namespace, *bundle_of(self._boundaries_of(namespace), text)))

    async def where(self, name: TopicName, *, sent: bool = False) -> Elsewhere | None:
        if self._now_s() < self._divides_s:
            await self._wait_for_others(name)
        return await super().where(name, sent=sent)

    async def _wait_for_others(self, name: TopicName) -> None:
        """Before it is decided whose a bundle is to be, also where it is another broker's turn to acquire it. Raises `NotReady`."""
        if self._live() >= self._brokers:
            return
        namespace = str(name.namespace)
        bundle = NamespaceBundle(namespace, *bundle_of(self._boundaries_of(namespace), str(name)))
        if any(row.pinned for row in self.owners.overlapping(bundle)):
            return  # there is nothing to divide
        await self.refresh()
        if self._live() < self._brokers:
            raise NotReady(f"topic {name} is not served yet: other brokers of this machine are starting; try again in a moment")

    async def _before_acquiring(self, name: TopicName, bundle: NamespaceBundle) -> None:
        """All others are there, or were waited for."""

    def _live(self) -> int:
        return sum(session.live for session in self.owners.sessions.values())

    async def _not_recovered(self, error: NotRecovered) -> None:
        raise error  # it is of a time when all brokers stored in one place

    async def _session_was_lost(self, error: SessionLost) -> None:
        """An operator removed it: the log is still ours, and so is what lies in it."""
        await self._open_session()

    async def _open_session(self) -> None:
        begun_s = self._now_s()
        self._session = await self._store.open_session(self.broker_id, self._addresses, replace=True)
        self._lease.renewed(begun_s, self._now_s())
        await self.look()
        log.info("session.opened", broker_id=self.broker_id, session=self._session)
