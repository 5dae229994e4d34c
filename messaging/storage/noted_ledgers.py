"""Where ledgers ended at the moment of a backup, as the broker knows that was writing them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

NOT_OF_THE_MOMENT = -2


class LedgerEnd(NamedTuple):
    """`last_block`: the number of the block with which the ledger ended at the moment, counted from 0; -1: it had none;
    `NOT_OF_THE_MOMENT`: there was no such ledger for anybody."""

    ledger_id: int
    last_block: int


class NotedLedgers(Protocol):
    """Of the ledgers that a broker was writing at the moment, and of those that came since or were about to go."""

    scopes: dict[str, int]  # in which it was writing, and the epoch of its fence

    async def ends(self, after: int, ends_max: int) -> list[LedgerEnd]:
        """By id, of those above `after`, until files are kept no longer. The first call settles which came since."""
