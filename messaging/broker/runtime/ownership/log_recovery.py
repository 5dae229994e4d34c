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

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.runtime.topics.subscriptions.cursor_recovery import cursor_from
from messaging.storage.ledger_store import WHOLE, NoSuchLedger
from messaging.storage.managed.cursor_log import CursorLog, cursor_ledgers
from messaging.storage.managed.cursor_snapshots import StoredCursor
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.owned_range import OwnedRange, take_over
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord
from messaging.storage.ownership import OwnershipStore

log = structlog.get_logger("broker.ownership")

TOPICS_AT_ONCE = 100  # whose ledgers are sealed at the same time: they share commits


async def recover_own(storage: Storage, cursors: CursorLog, owns: Callable[[str], bool]) -> None:
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

    async def end(self, broker_id: str, session: int, gone: bool, owned: Callable[[], Awaitable[Callable[[str], bool]]]) -> None:
        """Raises `Fenced` besides, if another broker does the same."""
        storage = self._storage
        ended = await self._store.fence_session(broker_id, session, gone=gone)
        await storage.ledgers.take_over(ended.fence)
        if await cursor_ledgers(storage.meta, ended.fence.scope):
            of_broker = OwnedRange(ended.fence, await storage.meta.next_ledger_id(ended.fence))
            await _recover(_of_range(storage, of_broker), await owned())
        await self._store.recovered(ended)
        log.info("ownership.session_ended", ended_broker_id=broker_id, ended_session=ended.session, gone=gone)


def _of_range(storage: Storage, owned: OwnedRange) -> Storage:
    """The same stores under another fence. Its background work is its own: it ends with the recovery."""
    return replace(storage, owned=owned, background=BackgroundLoops(), left={}, bundle_fence=None)


async def _recover(storage: Storage, owns: Callable[[str], bool]) -> None:
    cursors = CursorLog(storage)
    await cursors.start()
    try:
        await cursors.save_recovered(_Restoring(storage, owns).restored)
    except BaseException:
        await cursors.stop()
        raise
    await cursors.end()


class _Restoring:
    def __init__(self, storage: Storage, owns: Callable[[str], bool]) -> None:
        self._storage = storage
        self._owns = owns

    async def restored(self, deltas: dict[int, list[bytes]]) -> dict[int, StoredCursor]:
        by_topic: defaultdict[str, list[SubscriptionRecord]] = defaultdict(list)
        for record in await self._storage.meta.subscriptions_by_id(deltas):
            if self._owns(record.topic):
                by_topic[record.topic].append(record)
        cursors: dict[int, StoredCursor] = {}
        topics = list(by_topic)
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[start : start + TOPICS_AT_ONCE]
            for topic, ledger_list in zip(some, await asyncio.gather(*map(self._ledger_list, some)), strict=True):
                for record in by_topic[topic]:
                    cursors[record.subscription_id] = self._cursor(ledger_list, record, deltas[record.subscription_id])
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

    def _cursor(self, ledger_list: LedgerList, record: SubscriptionRecord, deltas: list[bytes]) -> Cursor:
        return cursor_from(self._storage, ledger_list, record, deltas)
