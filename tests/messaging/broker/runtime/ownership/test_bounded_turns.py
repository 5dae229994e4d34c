"""What is done for very many clients, topics or bundles at once takes a bounded part of each turn of the loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.setup import READ_AGAIN_S, MeteredBundles
from messaging.broker.runtime.topics.moving import TOLD_AT_ONCE, Moving
from messaging.protocol.bundles import bundles_of, equal_bundles
from messaging.storage.ownership import NamespaceBundle, OwnershipRow

ROWS = [
    OwnershipRow(NamespaceBundle("acme/orders", *bundle), "b1", 1, 1, "owned", False, number)
    for number, bundle in enumerate(bundles_of(equal_bundles(16)), 1)
]


async def test_clients_of_a_bundle_that_moved_are_told_in_turns() -> None:
    moving, told = Moving("it moves"), list[int]()
    for client in range(5 * TOLD_AT_ONCE + 1):
        moving.when_told(lambda client=client: told.append(client))  # type: ignore[misc]
    moving.tell({"broker_url": "pulsar://there"})
    turns = [len(told)]
    while len(told) < 5 * TOLD_AT_ONCE + 1:
        await asyncio.sleep(0)
        turns.append(len(told))
    assert max(later - before for before, later in zip([0, *turns], turns, strict=False)) <= TOLD_AT_ONCE
    assert told == list(range(5 * TOLD_AT_ONCE + 1))
    moving.when_told(lambda: told.append(-1))
    assert told[-1] == -1, "who comes later is told at once"


class Metadata:
    def __init__(self) -> None:
        self.listed = 0

    async def list_topics(self, namespace: str, *, after: str, limit: int) -> list[str]:
        self.listed += 1
        return []

    async def recycled_places(self, **asked: object) -> list[str]:
        return []


async def test_bundles_that_come_one_by_one_are_metered_together() -> None:
    metadata, now_s = Metadata(), 0.0
    service: Any = SimpleNamespace(
        storage=SimpleNamespace(meta=metadata),
        metering=SimpleNamespace(usage=None),
        topics=SimpleNamespace(loaded={}),
        stored_problems=None,  # there are no topics to look at
    )
    metered = MeteredBundles(cast(Broker, service), lambda: now_s)
    for count in range(1, len(ROWS)):
        await metered.follow(ROWS[:count])
        now_s += 1
    assert metadata.listed == 1 and metered.waits
    now_s += READ_AGAIN_S
    await metered.follow(ROWS)
    assert metadata.listed == 2
    now_s += READ_AGAIN_S
    await metered.follow(ROWS)
    assert metadata.listed == 2 and not metered.waits
