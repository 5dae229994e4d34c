"""A whole broker in this process, our client, and Apache's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pulsar
import pytest

from messaging import client as magnetar
from tests.support.brokers.running_broker import RunningBroker, running_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> AsyncIterator[magnetar.Client]:
    async with magnetar.connect(f"pulsar://127.0.0.1:{broker.port}", key=broker.token("owner")) as connected:
        yield connected


@pytest.fixture
async def stock(broker: RunningBroker, tmp_path: Path) -> AsyncIterator[pulsar.Client]:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "stock.log"))
    authentication = pulsar.AuthenticationToken(broker.token("owner"))
    apaches = pulsar.Client(f"pulsar://127.0.0.1:{broker.port}", authentication, logger=logger)
    yield apaches
    await asyncio.to_thread(apaches.close)
