"""Each implementation of the two interfaces in turn, for the tests of what all of them promise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from messaging.storage.ledger_store import WHOLE
from messaging.storage.meta_store import MetaStore
from messaging.storage.postgresql.meta_store import PostgresqlMetaStore
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from tests.support.bookkeeper import install
from tests.support.storage.ledger_harness import HARNESSES, Harness, PostgresqlHarness, RealBookiesHarness
from tests.support.storage.memory_meta import MemoryMetaStore
from tests.support.storage.owning import FENCE

REAL_BOOKIES = pytest.param(
    "real-bookies",
    marks=[
        pytest.mark.slow,
        pytest.mark.xdist_group("bookkeeper"),
        pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
    ],
)


@pytest.fixture(params=[*sorted(HARNESSES), "postgresql", REAL_BOOKIES])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    made: Harness
    if request.param == "postgresql":
        made = PostgresqlHarness(request.getfixturevalue("metadata_url"))
    elif request.param == "real-bookies":
        made = RealBookiesHarness(request.getfixturevalue("real_cluster"))
    else:
        made = HARNESSES[request.param](tmp_path)
    await made.open()
    yield made
    await made.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetaStore]:
    """`FENCE` is the newest fence of the whole range."""
    made: MetaStore
    if request.param == "postgresql":
        made = PostgresqlMetaStore(request.getfixturevalue("metadata_url"))
    else:
        made = MemoryMetaStore() if request.param == "memory" else SqliteMetaStore(tmp_path / "meta" / "meta.sqlite3")
    await made.start()
    assert await made.acquire(WHOLE) == FENCE
    yield made
    await made.stop()
