from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.brokers.http_edge import Edge, running_edge


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    async with running_edge() as running:
        yield running
