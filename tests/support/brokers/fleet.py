"""Several brokers of one machine in this process: a log each, their metadata and one port for clients in common."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from messaging.broker.runtime.main import announce
from messaging.broker.runtime.ownership import bundle_moves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.identity import create_secrets
from messaging.settings import Settings
from tests.support.brokers.running_broker import RunningBroker, running_broker

NOTICE_S = 0.02


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


@asynccontextmanager
async def shared_fleet(folder: Path, url: str, count: int, **settings: Any) -> AsyncIterator[list[RunningBroker]]:
    """Brokers as of several machines, each with a folder of its own, which store everything in one database. Bundles move at short
    notice, so that no test waits for it."""
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(bundle_moves, "NOTICE_S", NOTICE_S))
        fleet = [await stack.enter_async_context(shared_broker(folder, url, number, **settings)) for number in range(1, count + 1)]
        for broker in fleet:  # else the first one would acquire everything for a second
            assert isinstance(broker.service.owners, SharedMember)
            await broker.service.owners.look()
        yield fleet


@asynccontextmanager
async def shared_broker(folder: Path, url: str, number: int, **settings: Any) -> AsyncIterator[RunningBroker]:
    name = f"machine-{number}"
    if not (folder / "secrets").exists():
        create_secrets(Settings(data_dir=str(folder)))
    shutil.copytree(folder / "secrets", folder / name / "secrets", dirs_exist_ok=True)
    values = {"metadata_url": url, "ledger_url": url} | settings
    async with running_broker(folder / name, broker_id=name, **values) as broker:
        assert isinstance(broker.service.owners, SharedMember)
        await broker.service.owners.take_part()  # it knows the tenants since a moment ago
        yield broker
