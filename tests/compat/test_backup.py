"""A backup is taken of a running platform under stock clients, and what is restored is compared message by message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.backup_world import Traffic, World, compare_busy
from tests.support.brokers.standalone import Standalone
from tests.support.databases import other_database

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone]


def magnetar(platform: Standalone, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("magnetar")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=platform.environment | variables, timeout=120)


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Settings of the platform and of the restored one. `request.param`: the settings that name a database; those with the same
    number name the same one."""
    if not request.param:
        yield {}, {}
        return
    server = request.getfixturevalue("postgresql")
    with ExitStack() as stack:
        made = [{number: stack.enter_context(other_database(server)) for number in set(request.param.values())} for _ in range(2)]
        first, second = ({f"MAGNETAR_{name}": urls[number] for name, number in request.param.items()} for urls in made)
        yield first, second


LAYOUTS = {
    "two brokers on files": ({}, ["--brokers", "2"]),
    "all in one database": ({"DATABASE_URL": 1, "METADATA_URL": 1, "LEDGER_URL": 1}, []),
    "metadata in PostgreSQL, log on files": ({"DATABASE_URL": 1, "METADATA_URL": 2}, []),
    "messages and metadata in two databases": ({"METADATA_URL": 1, "LEDGER_URL": 2}, []),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("databases", "arguments"), LAYOUTS.values(), ids=LAYOUTS.keys(), indirect=["databases"])
def test_every_message_and_every_position_come_back(
    tmp_path: Path, databases: tuple[Mapping[str, str], Mapping[str, str]], arguments: list[str]
) -> None:
    first, second = databases
    platform = Standalone(tmp_path / "data", *arguments, **first)
    restored = Standalone(tmp_path / "restored", *arguments, **second)
    with ExitStack() as stack:
        stack.callback(platform.close)
        world = World(platform.start(), tmp_path)
        stack.callback(world.close)
        key = world.fill()
        facts = world.facts()
        traffic = Traffic(world, key)
        before, acknowledged = traffic.receipts(), traffic.acknowledgements()
        taken = magnetar(platform, "backup", "take", str(tmp_path / "backups"), "--data-dir", str(platform.folder))
        assert taken.returncode == 0, taken.stderr
        received, at_end = traffic.receipts(), traffic.acknowledgements()
        traffic.end()
        assert world.backups_audited() == ["backup.take"]
        world.close()
        platform.close()
        backup = taken.stdout.strip()
        checked = magnetar(platform, "backup", "verify", backup)
        assert (checked.returncode == 0 and "held for" in checked.stdout) or "not held" in checked.stdout, checked.stderr
        put_back = magnetar(restored, "backup", "restore", backup, "--data-dir", str(restored.folder))
        assert put_back.returncode == 0, put_back.stderr
        stack.callback(restored.close)
        after = World(restored.start(), tmp_path)
        stack.callback(after.close)
        assert after.token == world.token
        assert after.backups_audited() == ["backup.restore"]  # that of the taking is younger than the backup
        assert after.facts() == facts
        compare_busy(after, before, received, acknowledged, at_end)
        after.deliveries(key)
