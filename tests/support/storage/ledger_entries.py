"""Entries into a ledger and out of it: appends that remember how each was answered, and everything in a ledger read back."""

from __future__ import annotations

import asyncio
from array import array

from messaging.storage.ledger_store import Block, LedgerReader, LedgerWriter, StoreError


class Results:
    """Collects what `done` callbacks say, in the order of their calls."""

    def __init__(self) -> None:
        self.got: list[tuple[int, StoreError | None]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 0

    def append(self, writer: LedgerWriter, payloads: list[bytes], header: bytes = b"h") -> int:
        data = b"".join(payloads)
        end_offsets = array("I")
        end = 0
        for payload in payloads:
            end += len(payload)
            end_offsets.append(end)
        count = len(self.got)
        first = -1

        def done(error: StoreError | None) -> None:
            assert first >= 0, "done was called before append returned"
            self.got.append((first, error))
            if self._waiter is not None and len(self.got) >= self._wanted and not self._waiter.done():
                self._waiter.set_result(None)

        first = writer.append(header, data, end_offsets, done)
        assert len(self.got) == count, "done was called inside append"
        return first

    async def wait(self, count: int) -> None:
        self._wanted = count
        self._waiter = asyncio.get_running_loop().create_future()
        if len(self.got) < count:
            await asyncio.wait_for(self._waiter, 30)


async def append_all(writer: LedgerWriter, *payloads: bytes) -> None:
    results = Results()
    for payload in payloads:
        results.append(writer, [payload])
    await results.wait(len(payloads))
    assert all(error is None for _, error in results.got)


def entries(blocks: list[Block]) -> list[bytes]:
    payloads = []
    for block in blocks:
        begin = 0
        for stop in block.end_offsets:
            payloads.append(bytes(block.data[begin:stop]))
            begin = stop
    return payloads


async def read_all(reader: LedgerReader, last: int) -> list[bytes]:
    payloads: list[bytes] = []
    while len(payloads) <= last:
        blocks = await reader.read(len(payloads), entries_max=1000, bytes_max=1 << 20)
        assert blocks[0].first_entry == len(payloads)
        payloads += entries(blocks)
    return payloads
