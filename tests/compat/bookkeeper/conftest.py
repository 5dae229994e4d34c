"""Apache's client of the real bookies, beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bookkeeper.cluster import Cluster, Peer, PeerError
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def started_peer(started_cluster: Cluster) -> Iterator[Peer]:
    peer = Peer(started_cluster.uri)
    yield peer
    peer.kill()


@pytest.fixture
def peer(real_cluster: Cluster, started_peer: Peer) -> Peer:
    """It knows all bookies: one that was away is back for it as well."""

    def knows_all() -> bool:
        try:
            (ledger,) = started_peer.ask("create", "CRC32C", "-", len(real_cluster.bookies), 2, 2)
        except PeerError:
            return False
        started_peer.ask("close", ledger)
        return True

    eventually_sync(knows_all, timeout_s=30)
    return started_peer
