"""Real bookies for the tests of a module, and Apache's client beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bookkeeper.cluster import Cluster, Peer, PeerError, running_cluster
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("bookkeeper")) as cluster:
        yield cluster


@pytest.fixture
def real_cluster(started_cluster: Cluster) -> Cluster:
    """Four bookies that serve, whatever the test before left killed or standing still."""
    started_cluster.make_whole()
    return started_cluster


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
