"""A broker that does not belong to those that store where it would: it serves nothing, and changes nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from messaging.background import BackgroundLoops
from messaging.broker.runtime.main import start
from messaging.broker.runtime.ownership import same_platform
from messaging.broker.runtime.ownership.same_platform import require_same_platform
from messaging.clock import OFF_MS_MAX, wall_ms
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from messaging.storage.postgresql.meta_store import PostgresqlMetaStore
from tests.support.brokers.fleet import shared_broker


def settings_of(folder: Path, url: str, broker_id: str) -> Settings:
    settings = Settings(
        data_dir=str(folder), broker_id=broker_id, metadata_url=url, ledger_url=url, broker_port=0, ws_port=0, broker_rpc_port=0
    )
    create_secrets(settings)
    return settings


async def why_not_started(settings: Settings) -> str:
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError) as caught:
            await start(settings, stack)
    return str(caught.value)


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """What decides who may write."""
    asked = {
        "bundles": "select namespace, lower, upper, broker_id, epoch from magnetar_broker.bundle_owner",
        "sessions": "select broker_id, session from magnetar_broker.broker_session",
        "platform": "select value from magnetar_broker.value where key = 'fleet/platform'",
    }
    with psycopg.connect(url) as connection:
        return {name: sorted(connection.execute(sql).fetchall(), key=str) for name, sql in asked.items()}


async def test_secrets_of_another_platform_are_refused(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as broker:
        before = await asyncio.to_thread(rows, metadata_url)
        stranger = settings_of(tmp_path / "stranger", metadata_url, "stranger")
        why = await why_not_started(stranger)
        assert "copy the folder secrets" in why and str(stranger.data_path / "secrets") in why
        assert await asyncio.to_thread(rows, metadata_url) == before
        assert broker.service.ready()[0]


async def test_a_broker_comes_back_and_another_with_the_same_secrets_joins(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1):
        pass
    async with shared_broker(tmp_path, metadata_url, 1), shared_broker(tmp_path, metadata_url, 2) as second:
        assert second.service.ready()[0]


async def test_two_brokers_with_one_id_are_refused(tmp_path: Path, metadata_url: str) -> None:
    async with shared_broker(tmp_path, metadata_url, 1) as broker:
        other = settings_of(tmp_path / "machine-1-again", metadata_url, "machine-1")
        (other.data_path / "secrets" / "platform-id").write_bytes((tmp_path / "secrets" / "platform-id").read_bytes())
        why = await why_not_started(other)
        assert "machine-1 is alive" in why and "broker_id" in why
        assert broker.service.ready()[0]


@pytest.mark.parametrize(
    ("now_ms", "said"),
    [
        (lambda: wall_ms() - 3_600_000, "3600 s behind|3599 s behind"),
        (lambda: wall_ms() + 3_600_000, "3600 s ahead|3599 s ahead"),
    ],
)
async def test_a_clock_that_is_an_hour_off_is_refused(
    tmp_path: Path, metadata_url: str, now_ms: Callable[[], int], said: str
) -> None:
    settings = settings_of(tmp_path, metadata_url, "b")
    meta = PostgresqlMetaStore(metadata_url, BackgroundLoops().register("metadata_store"))
    await meta.start()
    try:
        with pytest.raises(ConfigError, match=said):
            await require_same_platform(settings, meta, now_ms)
        await require_same_platform(settings, meta)
        await require_same_platform(settings, meta, lambda: wall_ms() - OFF_MS_MAX + 5_000)
        assert await meta.get_value(same_platform.KEY) is None, "nothing is changed"
    finally:
        await meta.stop()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            "update magnetar_broker.broker_session set addresses = 'x'",
            "machine-1 in broker_session .* delete that row",
        ),
        ("update magnetar_broker.value set value = 'x' where key = 'fleet/platform'", "copy the folder secrets"),
    ],
)
async def test_a_row_that_was_edited_by_hand_is_an_error_that_says_so(
    tmp_path: Path, metadata_url: str, edit: str, said: str
) -> None:
    async with shared_broker(tmp_path, metadata_url, 1):
        with psycopg.connect(metadata_url) as connection:
            connection.execute(edit)
        before = await asyncio.to_thread(rows, metadata_url)
        second = settings_of(tmp_path / "b", metadata_url, "b")
        (second.data_path / "secrets" / "platform-id").write_bytes((tmp_path / "secrets" / "platform-id").read_bytes())
        assert re.search(said, await why_not_started(second))
        after = await asyncio.to_thread(rows, metadata_url)
        assert (after["bundles"], after["platform"]) == (before["bundles"], before["platform"])
