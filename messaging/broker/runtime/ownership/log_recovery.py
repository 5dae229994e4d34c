"""Recovers the cursor log of a broker without loading its topics: its own at a start, and that of one that is gone.

Where all brokers store in the same place, a bundle passes from one to another, and only its owner's log has what was acknowledged
since its cursors were last saved. So before anybody acquires what a broker owned that is gone, one of the others ends it: it closes
the session, takes over the range of its ledgers and of its log, so that nothing that it still tries succeeds, applies the log to
the stored cursors, and says so in the metadata, which refuses to give its bundles away before. Each step may be cut off at any
point, and done again by another broker: the fence of the second one makes the first one harmless.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.runtime.topics.services import health_topic
from messaging.broker.runtime.topics.subscriptions.cursor_recovery import cursor_from
from messaging.storage.ledger_store import WHOLE, Fenced, NoSuchLedger, StoreError
from messaging.storage.managed.cursor_log import CursorLog, cursor_ledgers, key_of, name_readable
from messaging.storage.managed.cursor_snapshots import StoredCursor
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.orphans import collect_orphans
from messaging.storage.managed.owned_range import OwnedRange, take_over
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord
from messaging.storage.ownership import EndedSession, OwnershipStore, RecoveryFailed

log = structlog.get_logger("broker.ownership")

TOPICS_AT_ONCE = 100  # whose ledgers are sealed at the same time: they share commits
WHY_CHARACTERS_MAX = 500

Owns: TypeAlias = Callable[[str], bool]


class Forgotten(NamedTuple):
    """What nobody owns any more, and what was deleted since nothing refers to it."""

    bundles: int
    ledgers: int
    length_bytes: int


async def recover_own(storage: Storage, cursors: CursorLog, owns: Owns) -> None:
    """What the last run of this broker left in its log, which is started. `owns`: whether a topic is still the broker's, by its
    full name; the cursors of others were saved when they were given away. Raises `StoreError`."""
    await cursors.save_recovered(_Restoring(storage, owns).restored)


async def recover_sole(storage: Storage) -> None:
    """What the one broker that there was before there were several left in its log. Raises `StoreError`."""
    if await cursor_ledgers(storage.meta, WHOLE):
        owned = await take_over(storage.ledgers, storage.meta, WHOLE)
        await _recover(_of_range(storage, owned), lambda _: True)
        log.info("ownership.sole_log_recovered")


class SharedStorage:
    """Implements `EndsSessions` for brokers that all store in the same place."""

    def __init__(self, storage: Storage, store: OwnershipStore) -> None:
        self._storage = storage
        self._store = store

    async def end(
        self, broker_id: str, session: int, gone: bool, owned: Callable[[], Awaitable[Owns]], *, accept_loss: bool = False
    ) -> EndedSession:
        """Raises `Fenced` besides, if another broker does the same."""
        storage = self._storage
        ended = await self._store.fence_session(broker_id, session, gone=gone)
        try:
            await storage.ledgers.take_over(ended.fence)
            lost = await self._recover(ended, await owned(), accept_loss)
        except Fenced:
            raise  # somebody else does it
        except Exception as error:  # whatever reading damaged bytes raises
            why = f"{error}" if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
            try:
                await storage.meta.put_value(ended.fence, unrecovered_key(broker_id), why[:WHY_CHARACTERS_MAX].encode())
            except Fenced:
                raise  # somebody else does it, and has deleted what was read here
            except StoreError:
                pass  # it is tried again, and said then
            raise RecoveryFailed(f"what broker {broker_id} left cannot be recovered: {why}") from error
        await self._store.recovered(ended)
        await storage.meta.delete_value(ended.fence, unrecovered_key(broker_id))
        log.info("ownership.session_ended", ended_broker_id=broker_id, ended_session=ended.session, gone=gone, lost=lost)
        return ended

    async def _recover(self, ended: EndedSession, owns: Owns, accept_loss: bool) -> int:
        """How much of the log was lost, where that is accepted."""
        storage = _of_range(self._storage, OwnedRange(ended.fence, await self._storage.meta.next_ledger_id(ended.fence)))
        lost = await name_readable(storage) if accept_loss else 0
        if await cursor_ledgers(storage.meta, ended.fence.scope):
            lost += await _recover(storage, owns, accept_loss=accept_loss)
        return lost

    async def why_unrecovered(self, broker_id: str) -> str:
        """Why the last attempt to recover what a broker left failed; "": it did not. Raises `StoreError`."""
        return (await self._storage.meta.get_value(unrecovered_key(broker_id)) or b"").decode("utf-8", "replace")

    async def forget(self, ended: EndedSession) -> Forgotten:
        """What was of a broker that never comes back is nobody's, or is deleted. Done again, it deletes what was left since. Raises
        `StoreError`."""
        storage, bundles = _of_range(self._storage, OwnedRange(ended.fence, await self._next_ledger_id(ended))), 0
        while released := await self._store.release_bundles_of(ended):
            bundles += released
        await storage.meta.delete_topic(ended.fence, str(health_topic(ended.broker_id)))
        ledgers, length_bytes = await collect_orphans(storage)
        await storage.meta.delete_value(ended.fence, key_of(ended.fence.scope))
        await self._store.forget_broker(ended)
        log.info("ownership.broker_forgotten", gone_broker_id=ended.broker_id, bundles=bundles, ledgers=ledgers)
        return Forgotten(bundles, ledgers, length_bytes)

    async def _next_ledger_id(self, ended: EndedSession) -> int:
        return await self._storage.meta.next_ledger_id(ended.fence)


def unrecovered_key(broker_id: str) -> str:
    return f"fleet/unrecovered/{broker_id}"


def _of_range(storage: Storage, owned: OwnedRange) -> Storage:
    """The same stores under another fence. Its background work is its own: it ends with the recovery."""
    return replace(storage, owned=owned, background=BackgroundLoops(), left={}, bundle_fence=None)


async def _recover(storage: Storage, owns: Owns, *, accept_loss: bool = False) -> int:
    """How many cursors were left as they are stored, where that is accepted."""
    cursors, restoring = CursorLog(storage), _Restoring(storage, owns, accept_loss=accept_loss)
    await cursors.start()
    try:
        await cursors.save_recovered(restoring.restored)
    except BaseException:
        await cursors.stop()
        raise
    await cursors.end()
    return restoring.lost


class _Restoring:
    """`accept_loss`: what cannot be restored stays as it is stored, so messages come again; `lost` counts it."""

    def __init__(self, storage: Storage, owns: Owns, *, accept_loss: bool = False) -> None:
        self._storage = storage
        self._owns = owns
        self._accept_loss = accept_loss
        self.lost = 0

    async def restored(self, deltas: dict[int, list[bytes]]) -> dict[int, StoredCursor]:
        by_topic: defaultdict[str, list[SubscriptionRecord]] = defaultdict(list)
        for record in await self._storage.meta.subscriptions_by_id(deltas):
            if self._owns(record.topic):
                by_topic[record.topic].append(record)
        cursors: dict[int, StoredCursor] = {}
        topics = list(by_topic)
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[start : start + TOPICS_AT_ONCE]
            lists = await asyncio.gather(*map(self._ledger_list, some), return_exceptions=True)
            for topic, ledger_list in zip(some, lists, strict=True):
                for record in by_topic[topic]:
                    try:
                        if isinstance(ledger_list, BaseException):
                            raise ledger_list
                        cursors[record.subscription_id] = cursor_from(
                            self._storage, ledger_list, record, deltas[record.subscription_id]
                        )
                    except (StoreError, ValueError, LookupError) as error:
                        if not self._accept_loss or isinstance(error, Fenced):
                            raise
                        self.lost += 1
                        log.critical("cursor.given_up", topic=record.topic, subscription=record.name, error=str(error))
        return cursors

    async def _ledger_list(self, topic: str) -> LedgerList:
        """As whoever loads the topic next will have it: nobody writes to its ledgers any more, and where they end is final."""
        record = await self._storage.meta.get_topic(topic)
        ledgers: list[tuple[int, int]] = []
        for ledger in record.ledgers if record is not None else ():
            last_entry = ledger.last_entry
            if last_entry is None:
                try:
                    last_entry = (await self._storage.seal_ledger(ledger.ledger_id)).last_entry
                except NoSuchLedger:  # a power loss took it; who loads the topic says so
                    last_entry = -1
            ledgers.append((ledger.ledger_id, last_entry))
        return LedgerList(ledgers)
