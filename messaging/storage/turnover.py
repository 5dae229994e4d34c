"""Blocks on their way to durability, and the time between two ledgers of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from messaging.storage.seam import StoreError

if TYPE_CHECKING:
    from messaging.storage.appends import Appends

Confirmed = Callable[[StoreError | None], None]


class Appended:
    """One appended block: what its ledger calls when the block is durable or has failed."""

    __slots__ = ("confirmed", "last_entry", "ledger_id", "owner")

    def __init__(self, owner: Appends, ledger_id: int, confirmed: Confirmed) -> None:
        self.owner = owner
        self.ledger_id = ledger_id
        self.confirmed = confirmed
        self.last_entry = -1

    def __call__(self, error: StoreError | None) -> None:
        self.owner.finished(self, error)


class Turnover:
    """While blocks of the old ledger are on their way and appends go to the new one already: what the new one finishes waits."""

    __slots__ = ("ended", "left", "new_id", "parked")

    def __init__(self, new_id: int, left: int) -> None:
        self.new_id = new_id
        self.left = left  # blocks of the old ledger
        self.parked: list[tuple[Appended, StoreError | None]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
