"""What a backup says of itself in one line."""

from __future__ import annotations

import pytest

from controlplane.backup.manifest import BOOKKEEPER, FILES, POSTGRESQL, BackupManifest, CopiedFile, Formats, Kept

FILE = CopiedFile("one", 1 << 20, 1 << 20, "")


@pytest.mark.parametrize(
    ("messages", "brokers", "held_ms", "says"),
    [
        (FILES, 1, 0.0, "1 file, 1.0 MiB, log of 1 broker, not held, taken in 2.5 s"),
        (FILES, 2, 33.4, "1 file, 1.0 MiB, logs of 2 brokers, held for 33 ms, taken in 2.5 s"),
        (POSTGRESQL, 0, 0.0, "1 file, 1.0 MiB, messages in PostgreSQL, no broker was held, taken in 2.5 s"),
        (POSTGRESQL, 1, 12.0, "1 file, 1.0 MiB, messages in PostgreSQL, 1 broker held for 12 ms, taken in 2.5 s"),
        (BOOKKEEPER, 2, 108.0, "1 file, 1.0 MiB, ledgers on bookies, 2 brokers held for 108 ms, taken in 2.5 s"),
        (BOOKKEEPER, 0, 0.0, "1 file, 1.0 MiB, ledgers on bookies, no broker was held, taken in 2.5 s"),
    ],
)
def test_where_messages_were_and_who_was_held(messages: str, brokers: int, held_ms: float, says: str) -> None:
    kept = Kept(FILES, FILES, messages)
    content = BackupManifest("1", "9.9", Formats(), kept, brokers, True, 0, held_ms, 2500, True, [FILE])
    assert content.described() == f"backup of 1970-01-01 00:00:00.000 UTC, release 9.9: {says}"
