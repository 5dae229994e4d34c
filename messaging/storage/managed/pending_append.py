"""Blocks on their way to durability, and the time between two ledgers of a topic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from messaging.storage.ledger_store import Position, StoreError

if TYPE_CHECKING:
    from messaging.storage.managed.appender import Appender


class PendingAppend:
    """One block between its append and its answer, and what the ledger calls then. Whoever appends derives from it and keeps there
    what it needs for the answer, so that a block costs one object: where each of thousands of topics gets one message, a block is
    a message. `Appender.append` fills in the slots."""

    __slots__ = ("first", "last_entry", "ledger")

    first: Position  # of the block's entries
    last_entry: int
    ledger: Appender

    def __call__(self, error: StoreError | None) -> None:
        ledger = self.ledger
        if error is None and ledger.rollover is None and ledger.failed is None:  # as nearly always; else see `finished`
            ledger.ledger_list.last_entry = self.last_entry  # without a turnover the ledger appended to is the chain's last
            ledger.in_flight -= 1
            self.confirmed(None)
            if ledger.drain_waiters is not None:
                ledger.notify_drained()
        else:
            ledger.finished(self, error)

    def confirmed(self, error: StoreError | None) -> None:
        """The block is durable (None), or it is not known to be. Runs on the loop, in append order over the managed ledger."""
        raise NotImplementedError


class LedgerRollover:
    """While blocks of the old ledger are on their way and appends go to the new one already: what the new one finishes waits."""

    __slots__ = ("ended", "left", "new_id", "parked")

    def __init__(self, new_id: int, left: int) -> None:
        self.new_id = new_id
        self.left = left  # blocks of the old ledger
        self.parked: list[tuple[PendingAppend, StoreError | None]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
