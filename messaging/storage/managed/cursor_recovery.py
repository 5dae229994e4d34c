"""What an earlier run left in a cursor ledger."""

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
    """(header, data, end offsets) of one block."""
    end_offsets, total = array("I"), 0
    for entry in entries:
        total += len(entry)
        end_offsets.append(total)
    # A clock may stand before 1970; a header has no number for that, and nobody reads this one's.
    return BlockHeader(max(now_ms, 0), len(entries), 0, 0, b"").encode(), b"".join(entries), end_offsets


async def read_deltas(storage: Storage, ledger_id: int) -> list[tuple[int, bytes]]:
    """(subscription id, delta), oldest first; 0 marks a checkpoint. Seals the ledger.

    What cannot be read is passed over and said loudly: what was acknowledged there is delivered again, which is better than no
    broker. Raises `StoreError` where the store is not ours, or takes nothing."""
    try:
        info = await storage.ledgers.seal(storage.fence, ledger_id)
    except NoSuchLedger:  # named before it was created, or deleted before it was unnamed
        return []
    reader = await storage.ledgers.open(ledger_id)
    found: list[tuple[int, bytes]] = []
    entry, lost, tried = 0, 0, -1
    while entry <= info.last_entry:
        try:
            blocks = await reader.read(entry, entries_max=READ_ENTRIES, bytes_max=READ_BYTES)
        except StoreError as error:
            if storage.ledgers.failed is not None or isinstance(error, Fenced):
                raise
            if not isinstance(error, Corrupt) and tried != entry:
                tried = entry  # perhaps it passes
                continue
            resume = error.resume_entry if isinstance(error, Corrupt) else info.last_entry + 1
            lost += resume - entry
            entry = resume
            logger.critical("cursor ledger %d: acknowledgements are lost and their messages come again: %s", ledger_id, error)
            continue
        for block in blocks:
            found += _deltas(block, entry)
            entry = block.last_entry + 1
    if lost:
        storage.damage["cursor"] += lost
        logger.critical("cursor ledger %d: %d of %d deltas are lost to damage", ledger_id, lost, info.entries)
    await reader.aclose()
    return found


async def copy_deltas(storage: Storage, ledgers: list[int], ids: Collection[int], properties: dict[str, str]) -> int:
    """A new ledger with what `ledgers` have of the cursors `ids`, in order, and nothing else; its id. Raises `StoreError`."""
    copy_id = await storage.meta.next_ledger_id(storage.fence)
    writer = await storage.ledgers.create(storage.fence, copy_id, properties)
    for ledger_id in ledgers:
        found = [entry_of(*one) for one in await read_deltas(storage, ledger_id) if one[0] in ids]
        for start in range(0, len(found), COPIED_TOGETHER):
            stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            writer.append(*block_of(found[start : start + COPIED_TOGETHER], storage.clock_ms()), stored.set_result)
            error = await stored
            if error is not None:
                raise error
    await writer.close()
    return copy_id


def _deltas(block: Block, first: int) -> Iterator[tuple[int, bytes]]:
    """Of the entries from number `first` on."""
    data, start = bytes(block.data), 0
    for index, stop in enumerate(block.end_offsets, block.first_entry):
        if index >= first:
            yield int.from_bytes(data[start : start + _ID_BYTES], "big"), data[start + _ID_BYTES : stop]
        start = stop
