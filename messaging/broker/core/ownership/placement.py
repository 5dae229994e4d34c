"""Which broker a bundle goes to that nobody owns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol
from zlib import crc32

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

    def why_nobody(self, namespace: str) -> str:
        """Why no broker that runs may."""


class Everywhere:
    """There are no rules."""

    version = 0

    def allowed(self, namespace: str, brokers: Sequence[str], giver: str = "") -> list[str]:
        return list(brokers)

    def permits(self, namespace: str, broker_id: str) -> bool:
        return True

    def why_nobody(self, namespace: str) -> str:
        return f"no broker takes bundles of {namespace}"


EVERYWHERE = Everywhere()


def candidate(bundle: NamespaceBundle, brokers: Collection[str], bundles_of: Mapping[str, int]) -> str | None:
    """Of two brokers, which the bundle's name chooses, the one that owns fewer bundles. All brokers come to nearly the same answer
    from nearly the same rows, and many bundles at once do not all go to the one that has the fewest. None: there is no broker."""
    order = sorted(brokers, key=lambda broker_id: (crc32(f"{broker_id} {bundle}".encode()), broker_id))[:2]
    return min(order, key=lambda broker_id: (bundles_of.get(broker_id, 0), order.index(broker_id)), default=None)
