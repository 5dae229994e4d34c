"""A cluster of bookies in the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.bookkeeper.fake_bookie import FakeCluster


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Of three bookies."""
    cluster = FakeCluster()
    for _ in range(3):
        await cluster.add()
    yield cluster
    for client in cluster.clients:
        await client.stop()
    for bookie in cluster.bookies.values():
        await bookie.stop()
