"""Batches the deltas of one turn of the event loop into one block of the current cursor ledger, and calls back when durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.background import BackgroundLoop
from messaging.storage.ledger_store import LedgerWriter, StoreError, Unavailable
from messaging.storage.managed.cursor_recovery import block_of, entry_of

Done = Callable[[StoreError | None], None]


class DeltaBatcher:
    """Lives on one event loop. `refused_by` is called for each block that a ledger refused (None: there was no ledger yet), with
    the ids of the subscriptions whose deltas were in it, `written` for each one it accepted, before it is durable. An exception in
    one callback does not keep others from being called: `answers` counts it."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        health: BackgroundLoop,
        answers: BackgroundLoop,
        refused_by: Callable[[LedgerWriter | None, set[int], StoreError], None],
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
        self._turn_ids: set[int] = set()
        self._turn_done: list[Done] = []
        # Callbacks that wait for the newest block of each ledger that is not durable yet: those of a ledger become so in order.
        self._under_way: dict[LedgerWriter | None, list[Done]] = {}
        self._scheduled = False

    def use(self, writer: LedgerWriter) -> None:
        """From now on blocks go to this ledger."""
        self.writer = writer
        self.refused = None

    def append(self, subscription_id: int, delta: bytes, done: Done | None) -> None:
        self._turn.append(entry_of(subscription_id, delta))
        self._turn_ids.add(subscription_id)
        if done is not None:
            self._turn_done.append(done)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def when_durable(self, done: Done) -> None:
        """Runs `done` once everything appended so far is durable; immediately if it is."""
        blocks = list(self._under_way.values())
        if self._turn:
            blocks.append(self._turn_done)
        if blocks:
            _when_all(blocks, done)
        else:
            done(self.refused)

    def flush(self) -> None:
        self._scheduled = False
        entries, self._turn = self._turn, []
        ids, self._turn_ids = self._turn_ids, set()
        waiting, self._turn_done = self._turn_done, []
        if not entries:
            return
        writer = self.writer
        self._under_way[writer] = waiting

        def durable(error: StoreError | None) -> None:
            if self._under_way.get(writer) is waiting:
                del self._under_way[writer]
            self._answers.each(waiting, lambda done: done(error))
            if error is not None:
                self._refused_by(writer, ids, error)

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


def _when_all(blocks: list[list[Done]], done: Done) -> None:
    """Runs `done` when each of them is durable, or was refused: with the first error."""
    left, failed = len(blocks), None

    def answered(error: StoreError | None) -> None:
        nonlocal left, failed
        left, failed = left - 1, failed or error
        if not left:
            done(failed)

    for waiting in blocks:
        waiting.append(answered)
