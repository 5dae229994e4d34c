"""Reading entries: many at once, each from one bookie after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from messaging.bookkeeper.core.actions import Arrived, ReadAction, SendRead
from messaging.bookkeeper.core.entries import Digest, Entry
from messaging.bookkeeper.core.entry_read import EntryRead
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.packets import Answer, Status
from messaging.bookkeeper.errors import InvalidArgument, NoSuchEntry
from messaging.bookkeeper.shell.bookies import Bookies

_FIRST_READS = 4


class _Read:
    """One entry on its way."""

    def __init__(self, metadata: LedgerMetadata, digest: Digest, bookies: Bookies, entry_id: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._bookies = bookies
        self._ledger_id = metadata.ledger_id
        self._machine = EntryRead(metadata, digest, entry_id, bookies.suspects())
        self.future: asyncio.Future[Entry] = self._loop.create_future()
        self._timer = self._loop.call_later(bookies.config.speculative_read_s, self._slow)
        self._take(self._machine.start())

    def cancel(self) -> None:
        self._timer.cancel()
        self.future.cancel()

    def _slow(self) -> None:
        self._timer = self._loop.call_later(self._bookies.config.speculative_read_s, self._slow)
        actions = self._machine.slow()
        if not actions:
            self._timer.cancel()
        self._take(actions)

    def _take(self, actions: Iterable[ReadAction]) -> None:
        for action in actions:
            if isinstance(action, SendRead):
                self._send(action)
                continue
            self._timer.cancel()
            if self.future.done():
                continue
            if isinstance(action, Arrived):
                self.future.set_result(action.entry)
            else:
                self.future.set_exception(action.error)

    def _send(self, action: SendRead) -> None:
        def answered(answer: Answer) -> None:
            if answer.status in (Status.TIMED_OUT, Status.CONNECTION_LOST):
                self._bookies.failed(action.bookie)
            self._take(self._machine.answered(action.slot, action.bookie, answer.status, answer.body))

        self._bookies.read(action.bookie, self._ledger_id, action.entry_id, None, answered)


async def read_entries(
    metadata: LedgerMetadata, digest: Digest, bookies: Bookies, first: int, last: int, readable: int, bytes_max: int | None = None
) -> list[Entry]:
    """From `first` to `last`, both included, or until `bytes_max` is reached (at least one). `readable` is the last one that may
    be read.

    Raises `NoSuchEntry` behind it, `CorruptEntry`, `Unavailable`.
    """
    if first < 0 or last < first:
        raise InvalidArgument(f"entries {first} to {last} of ledger {metadata.ledger_id} are no range", metadata.ledger_id)
    if last > readable:
        raise NoSuchEntry(f"entry {last} of ledger {metadata.ledger_id} is behind the last one, {readable}", metadata.ledger_id)
    entries: list[Entry] = []
    total_bytes = 0
    asked: deque[_Read] = deque()  # those on their way, in order
    try:
        while True:
            room = bookies.config.reads_at_once
            if bytes_max is not None:
                # How large entries are is not known before they come: by those that came, or all of a closed ledger, so that
                # little is read in vain.
                count, size = (len(entries), total_bytes) if entries else (metadata.last_entry_id + 1, metadata.length)
                known = entries or (metadata.is_closed and count)
                room = min(room, 1 + (bytes_max - total_bytes) * count // max(1, size) if known else _FIRST_READS)
            while first <= last and len(asked) < room:
                asked.append(_Read(metadata, digest, bookies, first))
                first += 1
            if not asked:
                return entries
            entry = await asked[0].future
            del asked[0]
            entries.append(entry)
            total_bytes += len(entry.payload)
            if bytes_max is not None and total_bytes >= bytes_max:
                return entries
    finally:
        for read in asked:
            read.cancel()
        for read in asked:
            if read.future.done() and not read.future.cancelled():
                read.future.exception()
