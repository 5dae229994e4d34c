"""The file that says of one boot of the broker up to when its usage is written, so that a crash shows as a hole with its bounds."""

from __future__ import annotations

import json
from pathlib import Path

from messaging.atomic_files import make_directory, replace_file
from messaging.broker.usage.writer import file_prefix
from messaging.usage_schema import SCHEMA_VERSION

FOLDER = "boots"


def next_epoch(directory: Path, source: str, now_ms: int) -> int:
    """An epoch for a boot of `source`, which has no other number for its boots: above all that have a file. Blocks on the disk."""
    prefix = file_prefix(source)
    names = (path.stem.removeprefix(prefix) for path in (directory / FOLDER).glob(f"{prefix}*.json"))
    return max([now_ms, *(int(name) + 1 for name in names if name.isdecimal())])


class BootFile:
    """Blocks on the disk: call it outside the event loop."""

    def __init__(self, directory: Path, source: str, boot_epoch: int, started_ms: int) -> None:
        self._path = directory / FOLDER / f"{file_prefix(source)}{boot_epoch}.json"
        self._fields = {"source": source, "boot_epoch": boot_epoch, "started_ms": started_ms, "schema_version": SCHEMA_VERSION}

    def covered(self, until_ms: int, *, ended: bool) -> None:
        """Every record up to then is durable. `ended`: there will be none after it. Raises `OSError`."""
        make_directory(self._path.parent)
        content = {**self._fields, "covered_until_ms": until_ms, "ended": ended}
        replace_file(self._path, json.dumps(content, sort_keys=True).encode() + b"\n", durable=True)
