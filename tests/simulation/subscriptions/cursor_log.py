"""The cursor log on a disk that forgets what was not synced: a snapshot, and the changes since then or from a little before."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import EARLIEST
from messaging.storage.managed.ledger_list import LedgerList
from tests.simulation.subscriptions.model import Stored

SNAPSHOT_AFTER = 50  # stored changes
REPLAYED_MAX = 4  # changes that a snapshot has already


class CursorLog:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._snapshot = Cursor().snapshot()
        self._changes: list[Stored] = []
        self._synced = 0  # of those, which a crash leaves

    def append(self, deltas: Sequence[bytes]) -> Stored:
        stored = Stored([delta for delta in deltas if delta])
        self._changes.append(stored)
        return stored

    def sync(self, cursor: Cursor) -> None:
        """All changes so far are durable."""
        if len(self._changes) > SNAPSHOT_AFTER:
            self._snapshot = cursor.snapshot()
            del self._changes[: -self._random.randint(1, REPLAYED_MAX)]
        self._synced = len(self._changes)

    def begin_anew(self, cursor: Cursor) -> None:
        """With a snapshot alone."""
        self._snapshot = cursor.snapshot()
        self._changes.clear()
        self._synced = 0

    def lose(self) -> list[Stored]:
        """A crash: of what was not durable a part is lost, the newest first."""
        kept = self._random.randint(self._synced, len(self._changes))
        lost = self._changes[kept:]
        del self._changes[kept:]
        return lost[::-1]

    def restore(self, ledger_list: LedgerList) -> Cursor:
        cursor = Cursor.restore(EARLIEST, self._snapshot)
        for stored in self._changes:
            for delta in stored.deltas:
                cursor.apply(delta, ledger_list)
        return cursor
