"""Counting what a tenant has stored, which takes as long as there is much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from messaging.broker.core.limits.limit_counts import StoredCounts
from messaging.broker.runtime.topics.limits.tenant_ceilings import COUNTS_MAX, count_stored
from messaging.errors import NotReady

pytestmark = pytest.mark.asyncio


class Store:
    """`meanwhile`: what happens each time while it is read."""

    def __init__(self) -> None:
        self.counts = StoredCounts()
        self.reads = 0
        self.opened = asyncio.Event()
        self.meanwhile = ""

    async def read(self, tenant: str) -> Mapping[str, int]:
        self.reads += 1
        if self.meanwhile:
            getattr(self.counts, self.meanwhile)(tenant)
        await self.opened.wait()
        return {f"{tenant}/x": 7}

    def count(self) -> asyncio.Task[None]:
        return asyncio.create_task(count_stored(self.counts, "acme", self.read, "topics"))


async def test_callers_at_the_same_time_share_one_count() -> None:
    store = Store()
    counting = [store.count() for _ in range(500)]
    await asyncio.sleep(0)
    counting[0].cancel()  # the others are counted for all the same
    store.opened.set()
    await asyncio.gather(*counting[1:])
    assert (store.reads, store.counts.of("acme")) == (1, 7)
    await store.count()
    assert store.reads == 2, "who comes later has it counted anew"


async def test_what_other_brokers_make_all_the_time_refuses_nobody() -> None:
    store = Store()
    store.opened.set()
    store.meanwhile = "heard"
    await store.count()
    assert (store.reads, store.counts.of("acme")) == (COUNTS_MAX, 7)
    store.meanwhile = "made_elsewhere"  # an unknown number, here
    with pytest.raises(NotReady, match="change too fast"):
        await asyncio.gather(store.count(), store.count())
    store.meanwhile = ""
    await store.count()
