"""A broker's copy of the rows of ownership. It may be older than the metadata: nothing is safe because of it, only prompt."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection

from messaging.broker.core.ownership.ranges import row_holding
from messaging.protocol.bundles import position_of
from messaging.storage.ledger_store import Fence
from messaging.storage.meta_store import namespace_of
from messaging.storage.ownership import BrokerSession, NamespaceBundle, OwnershipChanges, OwnershipRow

_NOWHERE: Counter[str] = Counter()


class OwnerMap:
    def __init__(self) -> None:
        self.change = 0
        self.version = 0  # rises with whatever is put here, or is expected no more
        self.sessions: dict[str, BrokerSession] = {}
        self.refusing: set[tuple[str, int]] = set()  # broker and session of those whose port is nobody's: they do not live
        self.bundles_of: Counter[str] = Counter()  # how many each broker owns, those of dead sessions included
        self._expected: dict[NamespaceBundle, str] = {}  # by whom a bundle that nobody owns is about to be acquired
        self._expected_of: Counter[str] = Counter()  # how many of them each broker has
        self._spread: dict[str, Counter[str]] = {}  # by namespace, how many of its bundles each broker owns or is about to
        self._young: set[NamespaceBundle] = set()  # of the expected ones, those since the last `forget_expected`
        self._moving: set[NamespaceBundle] = set()  # of the expected ones, those that are expected until `expect_no_more`
        self._rows: dict[str, list[OwnershipRow]] = {}  # by namespace, in the order of their ranges, which never overlap
        self._owned: defaultdict[str, dict[NamespaceBundle, OwnershipRow]] = defaultdict(dict)  # the same, by owner

    def apply(self, changes: OwnershipChanges) -> None:
        for row in changes.rows:
            self.put(row)
        self.sessions = {session.broker_id: session for session in changes.sessions}
        self.change = max(self.change, changes.change)

    def put(self, row: OwnershipRow) -> None:
        """In place of all rows that it overlaps, unless one of them is newer: answers may overtake one another."""
        if row.state == "owned":
            self.expect_no_more(row.bundle)
        rows = self._rows.setdefault(row.bundle.namespace, [])
        first, last = self._overlapping(rows, row.bundle)
        replaced = rows[first:last]
        if any(other.change > row.change for other in replaced):
            return
        self.version += 1
        for other in replaced:
            if other.broker_id:
                self._disown(other)
        rows[first:last] = [row]
        if row.broker_id:
            self._owned[row.broker_id][row.bundle] = row
            self.bundles_of[row.broker_id] += 1
            self._count(row.bundle.namespace, row.broker_id, 1)

    def expect(self, bundle: NamespaceBundle, broker_id: str, *, moves: bool = False) -> None:
        """That broker is about to have the bundle: somebody is sent there to have it acquired, or it is handed over. Of many
        bundles that are looked up at once, as with the partitions of a new topic, none has a row yet. `moves`: until
        `expect_no_more`, however long it takes to close its topics."""
        if moves:
            self._moving.add(bundle)
        if bundle not in self._expected:
            self._expected[bundle] = broker_id
            self._expected_of[broker_id] += 1
            self._count(bundle.namespace, broker_id, 1)
            self._young.add(bundle)

    def forget_expected(self) -> None:
        """What did not come since the last call but one, and does not move. Called about once a second."""
        for bundle in self._expected.keys() - self._young - self._moving:
            self.expect_no_more(bundle)
        self._young.clear()

    def expect_no_more(self, bundle: NamespaceBundle) -> None:
        self._moving.discard(bundle)
        broker_id = self._expected.pop(bundle, None)
        if broker_id is not None:
            self._expected_of[broker_id] -= 1
            self._count(bundle.namespace, broker_id, -1)
            self.version += 1

    def expected(self, bundle: NamespaceBundle) -> str | None:
        return self._expected.get(bundle)

    def load_of(self, broker_id: str) -> int:
        """How many bundles it owns or is about to."""
        return self.bundles_of[broker_id] + self._expected_of[broker_id]

    def load_within(self, namespace: str, broker_id: str) -> int:
        """The same, of a namespace alone."""
        return self._spread.get(namespace, _NOWHERE)[broker_id]

    def brokers_of(self, namespace: str) -> Collection[str]:
        """Those that own a bundle of it or are about to; those that are gone included, until others acquire it."""
        return self._spread.get(namespace, _NOWHERE).keys()

    def _count(self, namespace: str, broker_id: str, difference: int) -> None:
        spread = self._spread.setdefault(namespace, Counter())
        spread[broker_id] += difference
        if not spread[broker_id]:
            del spread[broker_id]
        if not spread:
            del self._spread[namespace]

    def row_at(self, namespace: str, position: int) -> OwnershipRow | None:
        """Of the bundle that holds a hash."""
        return row_holding(self._rows.get(namespace, []), position)

    def fence_of(self, topic: str, broker_id: str) -> Fence | None:
        """Of the bundle that holds a topic, by its full name, where this broker owns it. A row of an earlier session of it is worth
        something until another broker acquires the bundle."""
        row = self.row_at(namespace_of(topic), position_of(topic))
        return None if row is None or row.broker_id != broker_id else row.fence

    @property
    def namespaces(self) -> Collection[str]:
        """Those with rows."""
        return self._rows.keys()

    def rows_of(self, namespace: str) -> list[OwnershipRow]:
        return list(self._rows.get(namespace, ()))

    def drop(self, row: OwnershipRow) -> None:
        """It is in the metadata no more, and no other row in its place: its namespace is gone."""
        namespace = row.bundle.namespace
        rows = self._rows.get(namespace, [])
        if row not in rows:  # another one took its place meanwhile
            return
        rows.remove(row)
        self.version += 1
        if row.broker_id:
            self._disown(row)
        if not rows:
            del self._rows[namespace]

    def _disown(self, row: OwnershipRow) -> None:
        del self._owned[row.broker_id][row.bundle]
        self.bundles_of[row.broker_id] -= 1
        self._count(row.bundle.namespace, row.broker_id, -1)

    def overlapping(self, bundle: NamespaceBundle) -> list[OwnershipRow]:
        rows = self._rows.get(bundle.namespace, [])
        first, last = self._overlapping(rows, bundle)
        return rows[first:last]

    def owned_by(self, broker_id: str) -> list[OwnershipRow]:
        return list(self._owned[broker_id].values()) if broker_id in self._owned else []

    def is_live(self, row: OwnershipRow) -> bool:
        """Whether the session that owns it is alive, as far as is known."""
        session = self.sessions.get(row.broker_id)
        return session is not None and self.runs(session) and session.session == row.session and row.state != "free"

    def refuses(self, row: OwnershipRow) -> bool:
        """Whether the session that owns it has not ended, and runs no more."""
        session = self.sessions.get(row.broker_id)
        return session is not None and session.live and session.session == row.session and not self.runs(session)

    def runs(self, session: BrokerSession) -> bool:
        return session.live and (session.broker_id, session.session) not in self.refusing

    @staticmethod
    def _overlapping(rows: list[OwnershipRow], bundle: NamespaceBundle) -> tuple[int, int]:
        """From which row on, and up to which."""
        first = bisect_right(rows, bundle.lower, key=_upper)
        last = first
        while last < len(rows) and rows[last].bundle.overlaps(bundle):
            last += 1
        return first, last


def _upper(row: OwnershipRow) -> int:
    return row.bundle.upper
