"""`magnetar log`: a whole log verifies, a damaged one does not, and one in use is not mended."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.controlplane.cli.command_line import magnetar, refused
from tests.support.storage.owning import started
from tests.support.waiting import eventually


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A data directory with a hundred entries in its log."""
    folder = tmp_path / "broker" / "log"
    folder.mkdir(parents=True)
    store = LocalLedgerStore(folder, LocalConfig(segment_bytes=1 << 20))
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    for first in (0, 60):  # two commits: damage to the last one alone could not be told from a write that a crash cut off
        for number in range(first, min(100, first + 60)):
            writer.append(b"header", b"entry %03d" % number, array("I", [9]), lambda error: None)
        await eventually(lambda: writer.last_confirmed == writer.next_entry - 1)
    await store.stop()
    return tmp_path


def test_a_whole_log(data_dir: Path) -> None:
    shown = magnetar("log", "inspect", "--data-dir", str(data_dir))
    assert shown.returncode == 0 and "ledger 1" in shown.stdout
    verified = magnetar("log", "verify", "--data-dir", str(data_dir))
    assert verified.returncode == 0 and "100 entries" in verified.stdout and "PROBLEM" not in verified.stdout
    assert magnetar("log", "repair", "--data-dir", str(data_dir)).returncode == 0


def test_the_log_of_another_broker_of_the_machine(data_dir: Path) -> None:
    assert "no log in" in refused(magnetar("log", "verify", "--broker", "2", "--data-dir", str(data_dir)))
    (data_dir / "broker").rename(data_dir / "broker-2")
    verified = magnetar("log", "verify", "--broker", "2", "--data-dir", str(data_dir))
    assert verified.returncode == 0 and "100 entries" in verified.stdout
    assert "no log in" in refused(magnetar("log", "verify", "--data-dir", str(data_dir)))


def test_a_damaged_log_is_named_and_says_what_to_do(data_dir: Path) -> None:
    segment = next(
        path for path in (data_dir / "broker" / "log").rglob("*") if path.is_file() and b"entry 050" in path.read_bytes()
    )
    data = bytearray(segment.read_bytes())
    data[data.index(b"entry 050")] ^= 1
    segment.write_bytes(data)
    verified = magnetar("log", "verify", "--data-dir", str(data_dir))
    assert verified.returncode == 1
    assert "PROBLEM" in verified.stdout and "magnetar log repair" in verified.stdout


async def test_a_log_in_use_is_not_mended(data_dir: Path) -> None:
    store = LocalLedgerStore(data_dir / "broker" / "log", LocalConfig(segment_bytes=1 << 20))
    await started(store)
    try:
        assert "stop the broker first" in refused(magnetar("log", "repair", "--data-dir", str(data_dir)))
        assert magnetar("log", "inspect", "--data-dir", str(data_dir)).returncode == 0
    finally:
        await store.stop()


def test_no_log(tmp_path: Path) -> None:
    assert "there is no log in" in refused(magnetar("log", "verify", "--data-dir", str(tmp_path)))
