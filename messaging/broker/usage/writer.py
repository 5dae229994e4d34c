"""Writes usage records to files: `date=/hour=/NAME.parquet` with its manifest `NAME.json`. Files are never changed afterwards.

Everything here blocks on the disk, so call it outside the event loop. Each file is written under a temporary name, synced and
renamed. The manifest is written last; a file without one is ignored. Whatever happens in between, either a record is in a file
with a manifest or `write` did not return. Writing a record twice is harmless, because the job recognises records by their
identity.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from messaging.atomic_files import DRAFT_SUFFIX, make_directory, replace_file, replacing
from messaging.broker.usage.record import UsageRecord, hour_start_ms
from messaging.usage_schema import COLUMNS, SCHEMA_VERSION

_DRAFTS = (DRAFT_SUFFIX, ".tmp")  # the second: of earlier releases


def split_by_hour(records: Iterable[UsageRecord]) -> list[list[UsageRecord]]:
    """Groups records by source and hour of event time, in the given order, hours ascending."""
    hours: dict[int, list[UsageRecord]] = defaultdict(list)
    for record in records:
        hours[hour_start_ms(record.interval_start_ms)].append(record)
    return [hours[hour] for hour in sorted(hours)]


def write(records: Sequence[UsageRecord], directory: Path, number: int | None = None) -> Path:
    """Writes one file below `directory` (usage/raw) and its manifest, both durable on return; the path of the Parquet file.

    `records`: at least one; all of one source, boot epoch and hour (`split_by_hour`). `number`: of the file among those of its
    boot, from 0 without gaps. Raises `OSError`; nothing is there then.
    """
    first = records[0]
    hour = hour_start_ms(first.interval_start_ms)
    assert all(
        hour_start_ms(r.interval_start_ms) == hour and r.source == first.source and r.boot_epoch == first.boot_epoch
        for r in records
    )
    at = datetime.fromtimestamp(hour / 1000, UTC)
    folder = directory / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"
    _make_folder(folder, directory)
    start = min(record.interval_start_ms for record in records)
    # The random part prevents a second attempt from changing a file that a job may have read.
    name = f"{file_prefix(first.source)}{first.boot_epoch}-{start}-{uuid.uuid4().hex[:8]}"
    path = folder / f"{name}.parquet"
    sha256 = _write_parquet(records, path)
    manifest = {
        "file": path.name,
        "sha256": sha256,
        "rows": len(records),
        "interval_start_ms": start,
        "interval_end_ms": max(record.interval_end_ms for record in records),
        "sums": _sums(records),
        "source": first.source,
        "boot_epoch": first.boot_epoch,
        "schema_version": SCHEMA_VERSION,
        "file_numbers": [] if number is None else [number],
    }
    replace_file(path.with_suffix(".json"), json.dumps(manifest, sort_keys=True).encode() + b"\n", durable=True)
    return path


def remove_leftovers(directory: Path, source: str) -> int:
    """Removes files that a crash of the broker `source` left incomplete, and returns their number. Call it before the first
    `write`."""
    removed = 0
    for path in directory.glob(f"date=*/hour=*/{file_prefix(source)}*"):
        half = path.suffix in _DRAFTS or (path.suffix == ".parquet" and not path.with_suffix(".json").exists())
        if half:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def file_prefix(source: str) -> str:
    """The part of a file name that is unique to this source: readable text, and a digest to tell similar names apart."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.]', '_', source)[:60]}-{digest}-"


def _sums(records: Sequence[UsageRecord]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for record in records:
        sums[record.meter] += record.value
    return dict(sums)


def _write_parquet(records: Sequence[UsageRecord], path: Path) -> str:
    import arro3.core as arrow  # imported with the first file, not at the broker's start
    from arro3.io import write_parquet

    types: dict[str, Any] = {
        "string": arrow.DataType.string(),
        "int64": arrow.DataType.int64(),
        "int32": arrow.DataType.int32(),
    }
    columns = zip(*records, strict=True)
    arrays = [arrow.Array(values, type=types[kind]) for (_, kind), values in zip(COLUMNS, columns, strict=True)]
    schema = arrow.Schema([arrow.Field(column, types[kind], nullable=False) for column, kind in COLUMNS])
    with replacing(path, durable=True) as draft:
        write_parquet(arrow.RecordBatch.from_arrays(arrays, schema=schema), draft, compression="zstd(3)")
        with draft.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return sha256


def _make_folder(folder: Path, root: Path) -> None:
    """`folder` below `root`, with every new name on the way made durable."""
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    make_directory(folder)
    for path in reversed(missing):
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
