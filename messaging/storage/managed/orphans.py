"""Orphans: ledgers that nothing refers to. Their space is reclaimed only when they are deleted.

A ledger is created before a reference to it is stored, and the reference is removed before the ledger is deleted, so a crash at any
point leaves an orphan and never a topic with a hole. References are held by the records of topics (each partition is a topic of its
own) and by the list of the cursor log, and by nothing else.

Only ledgers created by earlier owners of the same range are considered. MetaStore never reuses an id and ids rise, so these are all
below the first id that this owner allocated; ledgers of this owner, referenced or not, are never touched. No other ledger can be
mistaken for an orphan, although topics are loaded, trimmed, deleted and recreated meanwhile:

- only the owner that created a ledger adds a reference to it, right after creating it: ledgers of earlier owners get no new
  references, and no ledger moves from one topic to another;
- references are read after the ids. A ledger without one either had none when this owner started, or was removed from its topic's
  list meanwhile in order to be deleted. A topic that is deleted and recreated under its name has new ledgers only, and whoever
  deleted it drops the old ones;
- a topic that exists throughout is on exactly one page, because pages are ordered by name. Each page is a consistent read. One that
  is recycled meanwhile moves to the last pages, so it is on one at least; where one is restored meanwhile, by whichever broker, it
  may be on none, and all are read again.

A ledger that its topic deletes first is deleted twice, which is allowed.

A ledger of this owner becomes an orphan, too, if it could not be deleted, or if nobody knows whether the record of its topic refers
to it, because the change failed and the record could not be read. These are remembered (`Storage.left`), and looked at again while
the broker runs. That a record does not refer to such a ledger is certain once it was read: calls about one topic are carried out in
the order in which they are made, and no later change adds a ledger that an earlier one did not.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from typing import NamedTuple

from messaging.storage.ledger_store import NoSuchLedger, StoreError, Unavailable
from messaging.storage.managed.cursor_log import cursor_ledgers
from messaging.storage.managed.storage import Storage

READ_AGAIN_MAX = 10  # times that all references are read, where topics come back from the recycle bin meanwhile
DELETES_MAX = 100  # deletes in flight at a time: they share a commit


class Collected(NamedTuple):
    """The number of ledgers deleted, and the bytes of their entries."""

    ledgers: int
    length_bytes: int


async def collect_orphans(storage: Storage) -> Collected:
    """Deletes every ledger that earlier owners of this range created and nothing refers to.

    Deletes nothing if the references cannot be read, or if the metadata is older than the log (restored from a backup, for example:
    ledgers that it does not know yet would look like orphans). Raises `StoreError`; `Fenced` as soon as the store has another
    owner."""
    unnamed = await _unnamed(storage)
    sizes_bytes: list[int] = []
    for start in range(0, len(unnamed), DELETES_MAX):
        some = unnamed[start : start + DELETES_MAX]
        outcomes = await asyncio.gather(*(_delete(storage, ledger_id) for ledger_id in some), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                sizes_bytes.append(outcome)
    return Collected(len(sizes_bytes), sum(sizes_bytes))


async def collect_left(storage: Storage) -> Collected:
    """Deletes some of the ledgers that this owner has left, except those that a record refers to. Raises `StoreError`: what was not
    decided stays left."""
    sizes_bytes: list[int] = []
    for ledger_id in list(storage.left)[:DELETES_MAX]:
        topic = storage.left.get(ledger_id)  # only now: the record may have got another name
        if topic is None:
            continue
        stored = await storage.meta.get_topic(topic) if topic else None
        if stored is None or ledger_id not in stored.ledger_ids:
            size_bytes = await _delete(storage, ledger_id)
            sizes_bytes += [] if size_bytes is None else [size_bytes]
        storage.left.pop(ledger_id, None)
    return Collected(len(sizes_bytes), sum(sizes_bytes))


async def _unnamed(storage: Storage) -> list[int]:
    """The ids of the orphans, in rising order. Yields to the event loop every few milliseconds, and needs nine bytes per ledger."""
    stored_ids = await _stored_ids(storage)
    named = bytearray(len(stored_ids))
    _mark(stored_ids, named, await cursor_ledgers(storage.meta, storage.owned.name))
    for _ in range(READ_AGAIN_MAX):
        restores = await storage.meta.restores()
        after: str | None = ""
        while after is not None:
            ledger_ids, after = await storage.meta.referenced_ledgers(after=after)
            _mark(stored_ids, named, ledger_ids)
        if await storage.meta.restores() == restores:
            break
    else:
        raise Unavailable("topics kept coming back from the recycle bin while their ledgers were looked for")
    unnamed: list[int] = []
    at = named.find(0)
    while at >= 0:
        unnamed.append(stored_ids[at])
        at = named.find(0, at + 1)
    return unnamed


async def _stored_ids(storage: Storage) -> array[int]:
    """The ids of ledgers that earlier owners of this range created, in rising order. They arrive as a few sorted runs, so sorting
    is fast."""
    listed = await storage.ledgers.ledger_ids(storage.owned.name)
    given_up_to_id = await storage.meta.next_ledger_id(storage.fence)
    await asyncio.sleep(0)  # with 100,000 ledgers each step takes 2 ms
    listed.sort()
    await asyncio.sleep(0)
    stored_ids = array("q", listed)
    if stored_ids and stored_ids[-1] >= given_up_to_id:
        raise StoreError(f"the metadata is older than the log, which has ledger {stored_ids[-1]}: its ids end at {given_up_to_id}")
    return stored_ids[: bisect_left(stored_ids, storage.owned.first_ledger_id)]


def _mark(stored_ids: array[int], named: bytearray, ledger_ids: list[int]) -> None:
    for ledger_id in ledger_ids:
        at = bisect_left(stored_ids, ledger_id)
        if at < len(stored_ids) and stored_ids[at] == ledger_id:
            named[at] = 1


async def _delete(storage: Storage, ledger_id: int) -> int | None:
    """The bytes of the deleted ledger; None if its owner had deleted it already."""
    try:
        length_bytes = (await storage.ledgers.info(ledger_id)).length_bytes
    except NoSuchLedger:
        length_bytes = None  # or its deletion was refused before: it is asked for again
    await storage.delete_ledger(ledger_id)
    return length_bytes
