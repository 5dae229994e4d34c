"""Rows of a broker's metadata in great numbers, written as they lie in its file while nobody uses it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from messaging.storage.meta_store import TopicRecord
from messaging.storage.sql import tables

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/wide"


def write_subscriptions(folder: Path, count: int) -> None:
    """Brings the topic `wide`, which is made by the first call, to `count` subscriptions."""
    nothing = tables.encode({})
    rows = ((TOPIC, f"sub-{number:06}", nothing) for number in range(count))
    db = sqlite3.connect(folder / "broker" / "meta.sqlite3", timeout=60)
    with closing(db), db:
        db.execute("insert or ignore into topic values (?, ?, 1, ?)", (TOPIC, NAMESPACE, tables.encode(TopicRecord(TOPIC, 1))))
        db.executemany(
            "insert or ignore into subscription (topic, name, created_ms, ledger_id, entry_id, state, properties) "
            "values (?, ?, 1, -1, -1, x'', ?)",
            rows,
        )
