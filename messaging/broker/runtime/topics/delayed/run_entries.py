"""The entries of a run: read and appended in their ledger, each a block of its own."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable
from functools import partial

from messaging.storage.ledger_store import LedgerStore, LedgerWriter, StoreError

PART_BYTES = 1 << 20  # of a directory in one entry


async def read(ledgers: LedgerStore, ledger_id: int, first: int, last: int | None) -> list[bytes]:
    """Entries `first` to `last`; None: to the end. Raises `StoreError`."""
    reader = await ledgers.open(ledger_id)
    if last is None:
        last = (await ledgers.info(ledger_id)).last_entry
    entries: list[bytes] = []
    try:
        while (at := first + len(entries)) <= last:
            blocks = await reader.read(at, entries_max=last + 1 - at, bytes_max=PART_BYTES)
            entries += [bytes(block.data) for block in blocks]
    finally:
        await reader.aclose()
    return entries[: last + 1 - first]


async def append(writer: LedgerWriter, entries: Iterable[bytes]) -> None:
    """Each becomes a block of its own, so that it is read alone. Returns when they are durable; raises `StoreError`."""
    waiting: list[asyncio.Future[StoreError | None]] = []
    for data in entries:
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        writer.append(b"", data, array("I", (len(data),)), partial(_settle, done))
        waiting.append(done)
    for error in await asyncio.gather(*waiting):
        if error is not None:
            raise error


def _settle(done: asyncio.Future[StoreError | None], error: StoreError | None) -> None:
    if not done.done():
        done.set_result(error)


def parts(data: bytes) -> list[bytes]:
    """`data` as entries."""
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
