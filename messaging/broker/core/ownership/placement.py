"""Which broker a bundle goes to that nobody owns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from zlib import crc32

from messaging.storage.ownership import NamespaceBundle


def everywhere(namespace: str, brokers: list[str]) -> list[str]:
    """Which of some brokers may have bundles of a namespace, where no policy says anything."""
    return brokers


def candidate(bundle: NamespaceBundle, brokers: Collection[str], bundles_of: Mapping[str, int]) -> str | None:
    """Of two brokers, which the bundle's name chooses, the one that owns fewer bundles. All brokers come to nearly the same answer
    from nearly the same rows, and many bundles at once do not all go to the one that has the fewest. None: there is no broker."""
    order = sorted(brokers, key=lambda broker_id: (crc32(f"{broker_id} {bundle}".encode()), broker_id))[:2]
    return min(order, key=lambda broker_id: (bundles_of.get(broker_id, 0), order.index(broker_id)), default=None)
