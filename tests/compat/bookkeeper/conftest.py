"""Real bookies for the tests of a module, and Apache's client beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bookkeeper.cluster import Cluster, Peer, running_cluster


@pytest.fixture(scope="module")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four bookies; a test that kills one starts it again."""
    with running_cluster(tmp_path_factory.mktemp("bookkeeper")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def peer(real_cluster: Cluster) -> Iterator[Peer]:
    peer = Peer(real_cluster.uri)
    yield peer
    peer.kill()
