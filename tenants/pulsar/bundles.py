"""Bundles of a namespace, as Pulsar shows them and takes them."""

from __future__ import annotations

from typing import Any

from messaging.protocol.bundles import BUNDLES_DEFAULT, Boundaries, equal_bundles, parse_boundaries
from tenants.pulsar.bodies import BundlesData


def shown(boundaries: Boundaries) -> dict[str, Any]:
    return {"boundaries": [f"0x{boundary:08x}" for boundary in boundaries], "numBundles": len(boundaries) - 1}


def given_boundaries(data: BundlesData | None) -> Boundaries | None:
    """Of a namespace that is being made; None: the usual ones. Tools send a number that is not positive where nobody chose one.
    Raises `InvalidValue`, `PreconditionFailed`."""
    if data is None:
        return None
    if data.boundaries:
        return parse_boundaries(data.boundaries)
    return equal_bundles(data.num_bundles) if data.num_bundles > 0 and data.num_bundles != BUNDLES_DEFAULT else None
