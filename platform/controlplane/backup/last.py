"""When the last backup of a data directory was taken: a small file in it, which says what is known and no more."""

from __future__ import annotations

from pathlib import Path

import msgspec

from messaging.atomic_files import replace_file
from messaging.json_types import decoder_of

NAME = "last-backup.json"


class LastBackup(msgspec.Struct, frozen=True):
    moment_ms: int
    folder: str
    size_bytes: int


def record(data_path: Path, last: LastBackup) -> None:
    """Raises `OSError`."""
    replace_file(data_path / NAME, msgspec.json.encode(last), durable=False, mode=0o600)


def read(data_path: Path) -> LastBackup | None:
    """None: none is known of."""
    try:
        return decoder_of(LastBackup).decode((data_path / NAME).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
