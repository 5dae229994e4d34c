"""Which broker a bundle goes to that nobody owns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from zlib import crc32

from messaging.protocol.bundles import HASH_MAX
from messaging.storage.ownership import NamespaceBundle


class PlacementRules(Protocol):
    """What operators and tenants ask of where bundles are."""

    @property
    def version(self) -> int:
        """Rises when they may answer otherwise than before, from the same rows."""

    def allowed(self, namespace: str, brokers: Sequence[str], giver: str = "") -> list[str]:
        """Which of some brokers a bundle of the namespace may be given to, in their order. `giver`: who has it now, where it would
        move only for the sake of their loads."""

    def permits(self, namespace: str, broker_id: str) -> bool:
        """Whether a broker that runs may have bundles of the namespace at all."""

    def is_together(self, namespace: str, broker_id: str, brokers: Sequence[str]) -> bool:
        """Whether a broker has more of the namespace's anti-affinity group than another one of them that may have it."""

    def why_nobody(self, namespace: str) -> str:
        """Why no broker that runs may."""


class Everywhere:
    """There are no rules."""

    version = 0

    def allowed(self, namespace: str, brokers: Sequence[str], giver: str = "") -> list[str]:
        return list(brokers)

    def permits(self, namespace: str, broker_id: str) -> bool:
        return True

    def is_together(self, namespace: str, broker_id: str, brokers: Sequence[str]) -> bool:
        return False

    def why_nobody(self, namespace: str) -> str:
        return f"no broker takes bundles of {namespace}"


EVERYWHERE = Everywhere()


class BundleCounts(Protocol):
    """How many bundles each broker has, those included that it is about to have."""

    def load_of(self, broker_id: str) -> int: ...

    def load_within(self, namespace: str, broker_id: str) -> int: ...


def candidate(bundle: NamespaceBundle, brokers: Collection[str], counts: BundleCounts) -> str | None:
    """The broker with the fewest bundles of the namespace, so that its traffic spreads; of these the one with the fewest of all; of
    these one by where the bundle lies in its namespace: brokers that know the same agree, and those that place the bundles of a new
    namespace at the same moment, and so do not know of each other's, choose different ones. None: there is no broker."""
    middle = (bundle.lower + bundle.upper) // 2
    first = crc32(bundle.namespace.encode()) + middle * len(brokers) // (HASH_MAX + 1)
    places = {broker_id: (place - first) % len(brokers) for place, broker_id in enumerate(sorted(brokers))}

    def order(broker_id: str) -> tuple[int, int, int]:
        return counts.load_within(bundle.namespace, broker_id), counts.load_of(broker_id), places[broker_id]

    return min(brokers, key=order, default=None)
