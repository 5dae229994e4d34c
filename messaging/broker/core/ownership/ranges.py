"""Which of some rows is that of a topic's bundle. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from messaging.protocol.bundles import Bundle, position_of
from messaging.storage.meta_store import namespace_of
from messaging.storage.ownership import NamespaceBundle, OwnershipRow
from messaging.storage.recycled_topic import original_name


def range_of(bundle: NamespaceBundle) -> Bundle:
    return Bundle(bundle.lower, bundle.upper)


def row_holding(rows: Sequence[OwnershipRow], position: int) -> OwnershipRow | None:
    """`rows`: of one namespace, in the order of their ranges, which do not overlap."""
    index = bisect_right(rows, position, key=lambda row: row.bundle.lower) - 1
    return rows[index] if index >= 0 and range_of(rows[index].bundle).holds(position) else None


class OwnedBundles:
    """The bundles of some rows, as they were. Implements `OwnedNamespaces`. `own_tenant`: whose topics each broker has by
    itself."""

    def __init__(self, rows: Iterable[OwnershipRow], own_tenant: str) -> None:
        self._own = f"{own_tenant}/"
        self._rows: defaultdict[str, list[OwnershipRow]] = defaultdict(list)
        for row in sorted(rows):
            self._rows[row.bundle.namespace].append(row)

    def has(self, topic: str) -> bool:
        name = original_name(topic)
        return self.has_at(namespace_of(name), position_of(name))

    def has_at(self, namespace: str, position: int) -> bool:
        return namespace.startswith(self._own) or row_holding(self._rows.get(namespace, ()), position) is not None
