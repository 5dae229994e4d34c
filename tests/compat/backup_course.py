"""A backup that is taken of a platform under traffic, put back, and compared with it: the course of the test of each layout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.compat.backup_world import Traffic, World, compare_busy
from tests.support.brokers.standalone import Standalone


def magnetar(platform: Standalone, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("magnetar")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=platform.environment | variables, timeout=120)


def take_and_restore(
    platform: Standalone, restored: Standalone, folder: Path, while_it_runs: Callable[[Standalone], object] = lambda platform: None
) -> dict[str, Any]:
    """Both are started and closed here. What the backup says of itself. `while_it_runs`: what else the first one is asked."""
    with ExitStack() as stack:
        stack.callback(platform.close)
        world = World(platform.start(), folder)
        stack.callback(world.close)
        while_it_runs(platform)
        key = world.fill()
        facts = world.facts()
        traffic = Traffic(world, key)
        before, acknowledged = traffic.receipts(), traffic.acknowledgements()
        taken = magnetar(platform, "backup", "take", str(folder / "backups"), "--data-dir", str(platform.folder))
        assert taken.returncode == 0, taken.stderr
        received, at_end = traffic.receipts(), traffic.acknowledgements()
        traffic.end()
        assert world.backups_audited() == ["backup.take"]
        world.close()
        platform.close()
        backup = taken.stdout.strip()
        checked = magnetar(platform, "backup", "verify", backup)
        assert checked.returncode == 0 and checked.stdout == taken.stderr, checked.stderr
        put_back = magnetar(restored, "backup", "restore", backup, "--data-dir", str(restored.folder))
        assert put_back.returncode == 0, put_back.stderr
        stack.callback(restored.close)
        after = World(restored.start(), folder)
        stack.callback(after.close)
        assert after.token == world.token
        assert after.backups_audited() == ["backup.restore"]  # that of the taking is younger than the backup
        assert after.facts() == facts
        compare_busy(after, before, received, acknowledged, at_end)
        after.deliveries(key)
    said: dict[str, Any] = json.loads((Path(backup) / "backup.json").read_bytes())
    return said
