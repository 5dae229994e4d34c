"""Several brokers of one machine in this process: a log each, their metadata and one port for clients in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from messaging.broker.runtime.main import announce
from tests.support.brokers.running_broker import RunningBroker, running_broker


@asynccontextmanager
async def running_fleet(folder: Path, count: int) -> AsyncIterator[list[RunningBroker]]:
    async with AsyncExitStack() as stack:
        fleet: list[RunningBroker] = []
        for number in range(1, count + 1):
            fleet.append(await stack.enter_async_context(fleet_broker(folder, number, count)))
        yield fleet


@asynccontextmanager
async def fleet_broker(folder: Path, number: int, count: int, **settings: Any) -> AsyncIterator[RunningBroker]:
    """One of them; the first one goes first."""
    async with running_broker(folder, brokers=count, broker_number=number, broker_id=f"broker-{number}", **settings) as broker:
        announce(broker.service.settings, broker.service)
        yield broker
