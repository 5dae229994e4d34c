"""Finds running platforms of this user, wherever their data directories are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from controlplane.doctor.checks import Finding
from controlplane.supervisor.status import running_state
from messaging.settings import Settings, default_data_dir

_PROC = Path("/proc")
_SUPERVISOR = b"controlplane.supervisor"


def running_data_paths(proc: Path = _PROC) -> list[Path]:
    """Data directories with a running supervisor, which keeps the lock file open. Empty if /proc does not show it."""
    data_paths = set()
    for process in proc.glob("[0-9]*"):
        try:
            if _SUPERVISOR in (process / "cmdline").read_bytes().split(b"\0"):
                data_paths |= {link.readlink().parent for link in (process / "fd").iterdir() if link.readlink().name == "lock"}
        except OSError:
            continue  # it ended meanwhile or belongs to another user
    return sorted(path for path in data_paths if running_state(path) is not None)


def choose(settings: Settings) -> tuple[Settings, list[Finding]]:
    """The platform to check: the one given by options, else the only one that is running."""
    if settings.data_dir != default_data_dir() or running_state(settings.data_path) is not None:
        return settings, []
    paths = running_data_paths()
    if len(paths) == 1:
        says = f"checking the platform in {paths[0]}; none is running in the default directory"
        return msgspec.structs.replace(settings, data_dir=str(paths[0])), [Finding("Data directory", "ok", says)]
    return settings, list(_several(paths))


def _several(paths: list[Path]) -> Iterator[Finding]:
    if paths:
        says = "several platforms are running: " + ", ".join(str(path) for path in paths)
        yield Finding("Data directory", "warn", says, "choose one with --data-dir")
