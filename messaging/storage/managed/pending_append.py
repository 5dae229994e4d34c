"""Blocks on their way to durability, and the time between two ledgers of a topic."""

from __future__ import annotations

import asyncio
from typing import Protocol

from messaging.storage.ledger_store import Position, StoreError
from messaging.storage.managed.ledger_list import LedgerList


class AppendOwner(Protocol):
    """What a block tells that it is durable, or not: the managed ledger (see `appender.py`)."""

    ledger_list: LedgerList
    failed: StoreError | None
    in_flight: int
    rollover: LedgerRollover | None
    drain_waiters: list[asyncio.Future[None]] | None

    def completed(self, append: PendingAppend, error: StoreError | None) -> None:
        """The ledger answered one block."""

    def notify_drained(self) -> None:
        """Lets those go on who wait until nothing is in flight."""


class PendingAppend:
    """One block between its append and its answer, and what the ledger calls then. Whoever appends derives from it and keeps there
    what it needs for the answer, so that a block costs one object: where each of thousands of topics gets one message, a block is
    a message. `Appender.append` sets the attributes."""

    __slots__ = ("first", "last_entry", "ledger")

    first: Position  # of the block's entries
    last_entry: int
    ledger: AppendOwner

    def __call__(self, error: StoreError | None) -> None:
        ledger = self.ledger
        if error is None and ledger.rollover is None and ledger.failed is None:  # as nearly always; else see `completed`
            ledger.ledger_list.last_entry = self.last_entry  # without a rollover it was appended to the last one
            ledger.in_flight -= 1
            self.confirmed(None)
            if ledger.drain_waiters is not None:
                ledger.notify_drained()
        else:
            ledger.completed(self, error)

    def confirmed(self, error: StoreError | None) -> None:
        """The block is durable (None), or it is not known to be. Runs on the loop, in append order over the managed ledger."""
        raise NotImplementedError


class LedgerRollover:
    """While blocks of the old ledger are in flight and appends go to the new one already: what the new one completes is parked."""

    __slots__ = ("ended", "left", "new_id", "parked")

    def __init__(self, new_id: int, left: int) -> None:
        self.new_id = new_id
        self.left = left  # blocks of the old ledger
        self.parked: list[tuple[PendingAppend, StoreError | None]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
