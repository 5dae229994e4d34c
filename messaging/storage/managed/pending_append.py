"""Blocks that are not durable yet, and the rollover from one ledger of a topic to the next."""

from __future__ import annotations

import asyncio
from typing import Protocol

from messaging.storage.ledger_store import Position, StoreError
from messaging.storage.managed.ledger_list import LedgerList


class AppendOwner(Protocol):
    """The interface of the managed ledger that a pending block calls when it is completed (see `appender.py`)."""

    ledger_list: LedgerList
    failed: StoreError | None
    in_flight: int
    rollover: LedgerRollover | None
    drain_waiters: list[asyncio.Future[None]] | None

    def completed(self, append: PendingAppend, error: StoreError | None) -> None:
        """The ledger completed one block."""

    def notify_drained(self) -> None:
        """Wakes the callers that wait until nothing is in flight."""


class PendingAppend:
    """One block, from its append to its completion; the ledger calls it. The caller of `append` derives its own class from this one
    and keeps there what it needs on completion, so that a block costs one object: with one message for each of thousands of topics,
    every block is a single message. `Appender.append` sets the attributes."""

    __slots__ = ("first", "last_entry", "ledger")

    first: Position  # number of entries in the block
    last_entry: int
    ledger: AppendOwner

    def __call__(self, error: StoreError | None) -> None:
        ledger = self.ledger
        if error is None and ledger.rollover is None and ledger.failed is None:  # nearly always; otherwise see `completed`
            ledger.ledger_list.last_entry = self.last_entry  # without a rollover, it was appended to the last ledger
            ledger.in_flight -= 1
            self.confirmed(None)
            if ledger.drain_waiters is not None:
                ledger.notify_drained()
        else:
            ledger.completed(self, error)

    def confirmed(self, error: StoreError | None) -> None:
        """The block is durable (None), or its outcome is unknown or a failure. Runs on the loop, in append order over the managed
        ledger."""
        raise NotImplementedError


class LedgerRollover:
    """While blocks of the old ledger are in flight and appends already go to the new one: completions of the latter wait."""

    __slots__ = ("ended", "left", "new_id", "parked", "written")

    def __init__(self, new_id: int, left: int, written: Position) -> None:
        self.new_id = new_id
        self.left = left  # blocks in flight in the old ledger
        self.written = written  # the last entry of the old ledger
        self.parked: list[tuple[PendingAppend, StoreError | None]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
