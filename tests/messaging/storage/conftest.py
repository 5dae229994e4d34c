"""Each implementation of the ledger seam in turn, for the tests of what all of them promise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.storage.ledger_harness import HARNESSES, Harness


@pytest.fixture(params=sorted(HARNESSES))
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    made: Harness = HARNESSES[request.param](tmp_path)
    await made.open()
    yield made
    await made.close()
