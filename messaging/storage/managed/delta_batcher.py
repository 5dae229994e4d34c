"""Batches the deltas of one turn of the event loop into one block of the current cursor ledger, and calls back when durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.background import BackgroundLoop
from messaging.storage.ledger_store import LedgerWriter, StoreError, Unavailable
from messaging.storage.managed.cursor_recovery import block_of

Done = Callable[[StoreError | None], None]


class DeltaBatcher:
    """Lives on one event loop. `refused_by` is called for each block that a ledger refused (None: there was no ledger yet),
    `written` for each one it accepted, before it is durable. An exception in one callback does not keep others from being called:
    `answers` counts it."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        health: BackgroundLoop,
        answers: BackgroundLoop,
        refused_by: Callable[[LedgerWriter | None, StoreError], None],
        written: Callable[[LedgerWriter], None],
    ) -> None:
        self.writer: LedgerWriter | None = None
        self.refused: StoreError | None = None  # the reason for refusing deltas for now
        self._refused_by = refused_by
        self._written = written
        self._clock_ms = clock_ms
        self._health = health
        self._answers = answers
        self._turn: list[bytes] = []
        self._turn_done: list[Done] = []
        self._under_way: list[Done] | None = None  # callbacks that wait for the newest block that is not durable yet
        self._scheduled = False

    def use(self, writer: LedgerWriter) -> None:
        """From now on blocks go to this ledger."""
        self.writer = writer
        self.refused = None

    def append(self, entry: bytes, done: Done | None) -> None:
        self._turn.append(entry)
        if done is not None:
            self._turn_done.append(done)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def when_durable(self, done: Done) -> None:
        """Runs `done` once everything appended so far is durable; immediately if it is."""
        if self._turn:
            self._turn_done.append(done)
        elif self._under_way is not None:
            self._under_way.append(done)
        else:
            done(self.refused)

    def flush(self) -> None:
        self._scheduled = False
        entries, self._turn = self._turn, []
        waiting, self._turn_done = self._turn_done, []
        if not entries:
            return
        self._under_way = waiting
        writer = self.writer

        def durable(error: StoreError | None) -> None:
            if self._under_way is waiting:
                self._under_way = None
            self._answers.each(waiting, lambda done: done(error))
            if error is not None:
                self._refused_by(writer, error)

        try:
            if self.refused is not None:
                raise self.refused
            assert writer is not None
            writer.append(*block_of(entries, self._clock_ms()), durable)
        except StoreError as error:
            durable(error)
        except Exception as error:  # it is unknown which of them were stored: a checkpoint covers them all
            self._health.failed(error)
            durable(Unavailable(f"acknowledgements could not be stored: {error!r}"))
        else:
            self._written(writer)
