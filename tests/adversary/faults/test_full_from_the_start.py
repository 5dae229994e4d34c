"""A disk that is full before anything was started on it: plain words, not a traceback, and all goes on when there is space."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.main import start
from messaging.identity import create_secrets
from messaging.settings import Settings
from messaging.storage.disk_reserve import MARGIN_BYTES, of_broker
from tests.support.small_disk import NotPermitted, SmallDisk, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(tmp_path / "disk", 40 << 20) as made:
            yield made
    except NotPermitted as error:
        pytest.skip(f"no small file system can be mounted here: {error}")


def run(disk: SmallDisk, *command: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_", "PYTEST"))}
    environment = kept | {"MAGNETAR_DATA_DIR": str(disk.path / "data")}
    return subprocess.run(
        [sys.executable, "-P", *command], env=environment, capture_output=True, text=True, timeout=110, check=False
    )


def leave_free(disk: SmallDisk, free_bytes: int) -> None:
    disk.fill()
    ballast = disk.path / "ballast"
    os.truncate(ballast, ballast.stat().st_size - free_bytes)


def test_the_command_says_that_the_disk_is_full(disk: SmallDisk) -> None:
    """It was a traceback out of the making of the first secrets."""
    disk.fill()
    done = run(disk, "-c", "from controlplane.cli import main; main(['broker', '--broker-port', '0', '--ws-port', '0'])")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "the disk is full" in done.stderr and "free some space" in done.stderr


def test_the_database_says_that_the_disk_is_full_and_is_made_when_there_is_space(disk: SmallDisk) -> None:
    """It was a traceback, whose last line named neither the disk nor what to do."""
    leave_free(disk, 600_000)
    done = run(disk, "-m", "controlplane.bootstrap")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"the disk under {disk.path / 'data'} is full" in done.stderr and "Free at least 16 MiB" in done.stderr
    disk.empty()
    assert run(disk, "-m", "controlplane.bootstrap").returncode == 0


async def test_a_broker_without_a_reserve_says_so_and_takes_it_later(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing told that what keeps a full disk from stopping everybody had never been there."""
    monkeypatch.setattr("messaging.storage.disk_reserve.FILL_S", 0.0)
    settings = Settings(
        data_dir=str(disk.path / "data"),
        broker_port=0,
        ws_port=0,
        broker_rpc_port=0,
        segment_bytes=1 << 20,
        reserved_bytes=8 << 20,
    )
    create_secrets(settings)
    leave_free(disk, MARGIN_BYTES)
    async with AsyncExitStack() as stack:
        with capture_logs() as logs:
            service = await start(settings, stack)
            stack.push_async_callback(service.stop)
        (said,) = [log for log in logs if log["event"] == "reserve.missing"]
        assert (
            said["log_level"] == "warning" and "2097152 of the 2097152 bytes" in said["why"] and "free some space" in said["to_do"]
        )
        disk.empty()
        tenant = FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []})
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=False, changes=[tenant]))
        assert of_broker(settings).why_not_whole() == ""
