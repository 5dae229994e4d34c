"""Gives bundles away, where all brokers store in the same place: drain, close, hand over, and only then tell clients where to go.

While a bundle is drained nobody can load a topic of it. Its topics are closed, which stores their cursors and ends their ledgers;
what their clients send meanwhile is dropped, and they send it again. Once the row names the new owner they are told its address, so
that they need not look up. If anything fails, this broker takes the bundle back under a new fence, and its clients come again. It
does so later where that fails, too, or where it was not known whether the bundle is drained.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from messaging.background import shared
from messaging.broker.core.ownership.placement import candidate
from messaging.broker.core.ownership.ranges import range_of
from messaging.broker.runtime.ownership.fleet_member import LOOK_S
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.topics.moving import Moving
from messaging.broker.runtime.topics.registry import CLOSING_MAX, Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import Conflict, NotReady
from messaging.protocol.bundles import Boundaries, position_of
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.ownership import BrokerSession, NamespaceBundle, OwnershipRow, OwnershipStore

log = structlog.get_logger("broker.ownership")

MOVES_MAX = 8  # at a time
NOTICES_MAX = 4 * MOVES_MAX  # moves that are announced, where a broker gives many away
NOTICE_S = LOOK_S + 0.2  # between saying that a bundle moves and closing its topics
FOLLOW_S = 2.0  # how often it is looked whether bundles were split


class BundleMoves:
    """Of the bundles of this broker."""

    def __init__(self, member: SharedMember, store: OwnershipStore, topics: Topics, cursors: CursorLog) -> None:
        self._member = member
        self._store = store
        self._topics = topics
        self._cursors = cursors
        self._moving: dict[NamespaceBundle, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(MOVES_MAX)

    async def give(self, bundle: NamespaceBundle, broker_id: str = "", *, notice: bool = True) -> None:
        """To that broker; "": to nobody, so that it is placed anew. Returns when it is done, also if somebody else asked for it.
        Without `notice` clients that looked a topic up just before are refused once: some applications are told.
        Raises `Conflict` if this broker does not own it, or `broker_id` cannot; `NotReady`."""
        row = self._owned(bundle)
        if broker_id == self._member.broker_id:
            return
        taker = self._member.owners.sessions.get(broker_id)
        if broker_id and (taker is None or not taker.serves):
            raise Conflict(f"broker {broker_id} is not running: bundle {bundle} stays")
        if taker is not None and taker.untold:
            raise Conflict(f"broker {broker_id} has just started and does not know the tenants yet: bundle {bundle} stays")
        if broker_id and not self._member.rules.permits(bundle.namespace, broker_id):
            raise Conflict(f"isolation policies keep namespace {bundle.namespace} from broker {broker_id}: bundle {bundle} stays")
        moving = self._moving.get(bundle)
        if moving is None:
            if broker_id:  # so that what is placed meanwhile goes elsewhere
                self._member.owners.expect(bundle, broker_id, moves=True)
            work = self._give(row, taker, NOTICE_S if notice else 0.0)
            moving = self._moving[bundle] = shared(asyncio.get_running_loop().create_task(work, name=f"move {bundle}"))
            moving.add_done_callback(lambda _: self._moving.pop(bundle, None))
            moving.add_done_callback(lambda _: self._member.owners.expect_no_more(bundle))
        try:
            await asyncio.shield(moving)
        except StoreError as error:
            raise NotReady(f"bundle {bundle} could not be moved: {error}; try again") from None

    def _owned(self, bundle: NamespaceBundle) -> OwnershipRow:
        for row in self._member.owners.overlapping(bundle):
            if row.bundle == bundle and (row.broker_id, row.session) == (self._member.broker_id, self._member.session):
                return row
        raise Conflict(f"bundle {bundle} is not one of this broker, {self._member.broker_id}")

    async def _give(self, row: OwnershipRow, taker: BrokerSession | None, notice_s: float) -> None:
        drained = await self._announce(row, notice_s)
        try:
            begun_s = time.monotonic()
            moving = Moving(f"bundle {row.bundle} moves to another broker: reconnect")
            try:
                closed = await self._close(row.bundle, moving)
                await self._cursors.saved()
                await self._pass_on(drained, taker)
            except BaseException as error:
                try:
                    await self._take_back(drained)
                except StoreError as failure:
                    log.warning("bundle.not_taken_back", bundle=str(row.bundle), error=str(failure), why=str(error))
                moving.tell(None)
                raise
            moving.tell(None if taker is None else taker.addresses)
            duration_ms = round(1000 * (time.monotonic() - begun_s), 1)
            to = "" if taker is None else taker.broker_id
            log.info("bundle.moved", bundle=str(row.bundle), to_broker_id=to, topics=closed, duration_ms=duration_ms)
        finally:
            self._room.release()

    async def _announce(self, row: OwnershipRow, notice_s: float) -> OwnershipRow:
        """Look-ups wait from now on, at other brokers once they know of it. Until then, and until there is room for this move, the
        bundle is served as before: whoever was told to come here finds its topic, and is told where it goes."""
        leaving = self._member.leaving
        leaving.add(row.bundle)
        try:
            drained = await self._store.drain_bundle(row)
            self._member.owners.put(drained)
            await asyncio.sleep(notice_s)
            await self._room.acquire()
        finally:
            leaving.discard(row.bundle)
        return drained

    async def _pass_on(self, drained: OwnershipRow, taker: BrokerSession | None) -> None:
        if taker is not None and not self._member.rules.permits(drained.bundle.namespace, taker.broker_id):
            taker = None  # the policies changed meanwhile: it is placed anew
        if taker is None:
            await self._store.release_bundle(drained)
            await self._member.look()
        else:
            self._member.owners.put(await self._store.hand_over_bundle(drained, taker.broker_id))

    async def _take_back(self, drained: OwnershipRow) -> None:
        self._member.owners.put(await self._store.hand_over_bundle(drained, self._member.broker_id))

    async def take_back(self) -> None:
        """What was drained by a move that is over, and is still this broker's: nobody else would ever serve it. Raises
        `StoreError`."""
        for row in self.rows():
            if row.state == "draining" and row.bundle not in self._moving:
                await self._take_back(row)
                log.info("bundle.taken_back", bundle=str(row.bundle))

    async def _close(self, bundle: NamespaceBundle, why: Moving) -> int:
        """All topics of it, those included that are being loaded or deleted. How many there were."""
        count = 0
        while under_way := self._topics.under_way(lambda text: _holds(bundle, text)):
            await asyncio.wait(under_way)
        topics = [topic for topic in self._topics.loaded_of(bundle.namespace) if _holds(bundle, topic.text)]
        for start in range(0, len(topics), CLOSING_MAX):
            some = topics[start : start + CLOSING_MAX]
            for outcome in await asyncio.gather(*(self._unload(topic, why) for topic in some), return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise StoreError(f"a topic cannot be closed: {outcome}") from outcome
                count += 1
        return count

    async def _unload(self, topic: Topic, why: Moving) -> None:
        await self._topics.unload(topic.name, why)

    # --- all of them

    async def drain(self, ends_s: float | None = None) -> int:
        """Gives everything to the other brokers, until `ends_s` of the monotonic clock, and takes nothing more. How many bundles
        were left; moves that are under way then go on. Does nothing where there is no other broker. Raises `NotReady`."""
        takers = [each.broker_id for each in self._member.other_sessions() if each.takes]
        if not takers or self._member.lost.is_set():
            return len(self.rows())
        try:
            await self._member.take_no_more()
        except StoreError as error:
            raise NotReady(f"the other brokers cannot be told to give this one nothing more: {error}; try again") from None

        async def give(row: OwnershipRow) -> None:
            taker = candidate(row.bundle, self._member.rules.allowed(row.bundle.namespace, takers), self._member.owners)
            try:
                if taker is None:  # it stays until this broker stops: isolation comes before availability
                    raise NotReady(self._member.rules.why_nobody(row.bundle.namespace))
                await self.give(row.bundle, taker, notice=ends_s is None)
            except (Conflict, NotReady, StoreError) as error:
                log.warning("bundle.not_drained", bundle=str(row.bundle), error=str(error))

        rows = iter(self.rows())

        async def give_some() -> None:
            for row in rows:  # the next one that nobody gives yet
                if self._member.drains:
                    await give(row)

        giving = [asyncio.get_running_loop().create_task(give_some(), name="drain") for _ in range(NOTICES_MAX)]
        try:
            await asyncio.wait(giving, timeout=None if ends_s is None else max(0.0, ends_s - time.monotonic()))
        finally:
            for each in giving:
                each.cancel()
        await asyncio.gather(*(each for each in giving if each.done()))
        return len(self.rows())

    async def end_drain(self) -> None:
        """It takes bundles again, and keeps those that no move has begun to give. Raises `NotReady`."""
        try:
            await self._member.take_again()
        except StoreError as error:
            raise NotReady(f"the other brokers cannot be told to give this one bundles again: {error}; try again") from None

    def rows(self) -> list[OwnershipRow]:
        """Of the bundles that this broker owns."""
        member = self._member
        return [row for row in member.owners.owned_by(member.broker_id) if row.session == member.session]

    # --- splitting

    async def follow_boundaries(self, boundaries_of: Callable[[str], Boundaries]) -> None:
        """Cuts this broker's bundles where the control plane did: nothing is closed, topics go on under the fences of the parts.
        Raises `StoreError`."""
        for row in self.rows():
            cuts = _cuts(row.bundle, boundaries_of(row.bundle.namespace))
            if cuts and row.state == "owned" and row.bundle not in self._moving:
                for part in await self._store.split_bundle(row, cuts):
                    self._member.owners.put(part)
                log.info("bundle.split", bundle=str(row.bundle), parts=len(cuts) + 1)


def _cuts(bundle: NamespaceBundle, boundaries: Boundaries) -> list[int]:
    return [boundary for boundary in boundaries if bundle.lower < boundary < bundle.upper]


def _holds(bundle: NamespaceBundle, text: str) -> bool:
    return text.partition("://")[2].startswith(f"{bundle.namespace}/") and range_of(bundle).holds(position_of(text))
