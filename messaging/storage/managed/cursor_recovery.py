"""Reads what an earlier run left in a cursor ledger."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Collection, Iterator

from messaging.storage.block_header import BlockHeader
from messaging.storage.ledger_store import Block, Corrupt, Fenced, NoSuchLedger, StoreError
from messaging.storage.managed.storage import Storage

logger = logging.getLogger(__name__)

READ_ENTRIES = 100_000
READ_BYTES = 4 << 20
COPIED_TOGETHER = 10_000
_ID_BYTES = 8


def entry_of(subscription_id: int, delta: bytes) -> bytes:
    return subscription_id.to_bytes(_ID_BYTES, "big") + delta


def block_of(entries: list[bytes], now_ms: int) -> tuple[bytes, bytes, array[int]]:
    """Builds (header, data, end offsets) of one block."""
    end_offsets, total = array("I"), 0
    for entry in entries:
        total += len(entry)
        end_offsets.append(total)
    # The clock may be before 1970, which the header cannot represent; nobody reads the time of these blocks.
    return BlockHeader(max(now_ms, 0), len(entries), 0, 0, b"").encode(), b"".join(entries), end_offsets


async def read_deltas(storage: Storage, ledger_id: int) -> list[tuple[int, bytes]]:
    """Returns (subscription id, delta) pairs, oldest first; id 0 marks a checkpoint. Seals the ledger.

    Unreadable entries are skipped and logged as errors: redelivering what was acknowledged there is better than not starting.
    Raises `StoreError` if the store has another owner or accepts nothing."""
    try:
        info = await storage.seal_ledger(ledger_id)
    except NoSuchLedger:  # recorded before it was created, or deleted before it was removed from the record
        return []
    reader = await storage.ledgers.open(ledger_id)
    deltas: list[tuple[int, bytes]] = []
    entry, lost, tried = 0, 0, -1
    while entry <= info.last_entry:
        try:
            blocks = await reader.read(entry, entries_max=READ_ENTRIES, bytes_max=READ_BYTES)
        except StoreError as error:
            if storage.ledgers.failed is not None or isinstance(error, Fenced):
                raise
            if not isinstance(error, Corrupt) and tried != entry:
                tried = entry  # the error may be transient
                continue
            resume = error.resume_entry if isinstance(error, Corrupt) else info.last_entry + 1
            lost += resume - entry
            entry = resume
            logger.critical("cursor ledger %d: acknowledgements are lost and their messages come again: %s", ledger_id, error)
            continue
        for block in blocks:
            deltas += _deltas(block, entry)
            entry = block.last_entry + 1
    if lost:
        storage.damage["cursor"] += lost
        logger.critical("cursor ledger %d: %d of %d deltas are lost to damage", ledger_id, lost, info.entries)
    await reader.aclose()
    return deltas


async def copy_deltas(storage: Storage, ledgers: list[int], ids: Collection[int], properties: dict[str, str]) -> int:
    """Creates a ledger with the deltas that `ledgers` hold for the cursors `ids`, in order, and nothing else. Returns its id.
    Raises `StoreError`."""
    copy_id = await storage.meta.next_ledger_id(storage.fence)
    writer = await storage.ledgers.create(storage.fence, copy_id, properties)
    for ledger_id in ledgers:
        entries = [entry_of(cursor_id, delta) for cursor_id, delta in await read_deltas(storage, ledger_id) if cursor_id in ids]
        for start in range(0, len(entries), COPIED_TOGETHER):
            stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            writer.append(*block_of(entries[start : start + COPIED_TOGETHER], storage.clock_ms()), stored.set_result)
            error = await stored
            if error is not None:
                raise error
    await writer.close()
    return copy_id


def _deltas(block: Block, first: int) -> Iterator[tuple[int, bytes]]:
    """The deltas from entry `first` on."""
    data, start = bytes(block.data), 0
    for index, stop in enumerate(block.end_offsets, block.first_entry):
        if index >= first:
            yield int.from_bytes(data[start : start + _ID_BYTES], "big"), data[start + _ID_BYTES : stop]
        start = stop
