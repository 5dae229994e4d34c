"""A broker that keeps everything in PostgreSQL is killed while it publishes: what was acknowledged is there after its restart."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from messaging.broker.runtime.main import start
from messaging.broker.runtime.storage_opening import StorageUnreachable
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from tests.support.brokers.started_broker import opened
from tests.support.brokers.storage_broker import stored_numbers

_PUBLISHES = """
import asyncio, sys
from contextlib import AsyncExitStack
from messaging.settings import Settings
from tests.support.brokers.started_broker import opened
from tests.support.brokers.storage_broker import publish

async def main():
    async with AsyncExitStack() as stack:
        url = sys.argv[2]
        settings = Settings(data_dir=sys.argv[1], broker_port=0, ws_port=0, broker_rpc_port=0, metadata_url=url, ledger_url=url)
        service = await opened(settings, stack)
        for number in range(1_000_000):
            await publish(service, number, number + 1)
            print(number, flush=True)

asyncio.run(main())
"""


def settings_of(folder: Path, url: str) -> Settings:
    return Settings(data_dir=str(folder), broker_port=0, ws_port=0, broker_rpc_port=0, metadata_url=url, ledger_url=url)


async def test_acknowledged_messages_survive_a_kill(tmp_path: Path, metadata_url: str) -> None:
    settings = settings_of(tmp_path, metadata_url)
    create_secrets(settings)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PUBLISHES, str(tmp_path), metadata_url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged: list[int] = []
    while len(acknowledged) < 30:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert line or not process.stdout.at_eof(), "the broker ended by itself"
        if line.isdigit():
            acknowledged.append(int(line))
    os.kill(process.pid, signal.SIGKILL)
    rest = await process.stdout.read()
    acknowledged += [int(line) for line in rest.decode().split("\n")[:-1] if line.isdigit()]
    await process.wait()
    async with AsyncExitStack() as stack:
        stored = await stored_numbers(await opened(settings, stack))
    assert sorted(stored)[: len(acknowledged)] == acknowledged
    assert not (tmp_path / "broker" / "log").exists()


async def test_a_database_of_ledgers_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "postgresql://someone@127.0.0.1:1/none")
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        with pytest.raises(StorageUnreachable, match="PostgreSQL of ledger_url cannot be reached"):
            await start(settings, stack)
    with pytest.raises(ConfigError, match="ledger_url = mysql://"):
        Settings(ledger_url="mysql://host/name")
