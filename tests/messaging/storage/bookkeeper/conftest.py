"""Bookies in the test's event loop, and stores on them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.bookkeeper.opened_stores import OpenedStores


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Of three bookies."""
    made = FakeCluster()
    for _ in range(3):
        await made.add()
    yield made
    for bookie in made.bookies.values():
        await bookie.stop()


@pytest.fixture
async def open_store(cluster: FakeCluster) -> AsyncIterator[OpenedStores]:
    made = OpenedStores(cluster)
    yield made
    await made.stop()
