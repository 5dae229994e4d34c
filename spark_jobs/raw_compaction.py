"""Small raw files of an hour that is over, made one. Runs inside Spark's Python workers.

The new file's manifest names its members and their checksums: to the plan it is these files, so no hour has other inputs for it and
no sum is made anew. Only when it is durable do the members go; where a run was killed before that, both are there, and the members
are passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from messaging.usage_schema import COLUMNS, SCHEMA_VERSION
from spark_jobs.plan import HOUR_MS, Manifest
from spark_jobs.raw_files import FileProblem, read_file

QUIET_MS = 2 * HOUR_MS  # after its end an hour may still get late files
FILES_MIN = 8
ROWS_MAX = 1_000_000  # of a new file
GROUPS_A_RUN_MAX = 500
PREFIX = "compacted-"  # no broker's: it takes files with its own prefix and without a manifest for its leftovers
_TYPES = {"string": pa.string(), "int64": pa.int64(), "int32": pa.int32()}


@dataclass(frozen=True)
class CompactionTask:
    files: tuple[Manifest, ...]


def compactions(files: Iterable[Manifest], now_ms: int) -> list[CompactionTask]:
    """Of files whose hours are as they should be: those of one boot and hour that are many and small, the latest hours first."""
    groups: dict[tuple[int, str, int], list[Manifest]] = defaultdict(list)
    for manifest in files:
        if manifest.hour_ms + HOUR_MS + QUIET_MS <= now_ms:
            groups[manifest.hour_ms, manifest.source, manifest.boot_epoch].append(manifest)
    tasks: list[CompactionTask] = []
    for _, group in sorted(groups.items(), reverse=True):
        chosen: list[Manifest] = []
        for manifest in sorted(group, key=lambda manifest: (manifest.interval_start_ms, manifest.name)):
            if sum(each.rows for each in chosen) + manifest.rows > ROWS_MAX:
                tasks.append(CompactionTask(tuple(chosen)))
                chosen = []
            chosen.append(manifest)
        tasks.append(CompactionTask(tuple(chosen)))
    return [task for task in tasks if len(task.files) >= FILES_MIN][:GROUPS_A_RUN_MAX]


def merge_files(task: CompactionTask) -> int:
    """How many files it replaced by one; 0 if one of them cannot be used."""
    try:
        tables = [read_file(manifest) for manifest in task.files]
    except FileProblem:
        return 0
    first = task.files[0]
    members = sorted(member for file in task.files for member in file.members)
    digest = hashlib.sha256(repr(members).encode()).hexdigest()[:16]
    path = first.path.with_name(f"{PREFIX}{first.interval_start_ms}-{digest}.parquet")
    schema = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in COLUMNS])
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    pq.write_table(pa.concat_tables(tables).select(schema.names).cast(schema), temporary, compression="zstd", store_schema=False)
    sums: dict[str, int] = defaultdict(int)
    for file in task.files:
        for meter, value in file.sums.items():
            sums[meter] += value
    manifest = {
        "file": path.name,
        "sha256": hashlib.sha256(temporary.read_bytes()).hexdigest(),
        "rows": sum(file.rows for file in task.files),
        "interval_start_ms": min(file.interval_start_ms for file in task.files),
        "interval_end_ms": max(file.interval_end_ms for file in task.files),
        "sums": sums,
        "source": first.source,
        "boot_epoch": first.boot_epoch,
        "schema_version": SCHEMA_VERSION,
        "members": members,
        "file_numbers": sorted({number for file in task.files for number in file.numbers}),
    }
    _put(temporary, path)
    temporary.write_text(json.dumps(manifest, sort_keys=True))
    _put(temporary, path.with_suffix(".json"))
    _sync(path.parent)
    for file in task.files:
        if file.path != path:
            file.path.with_suffix(".json").unlink(missing_ok=True)
            file.path.unlink(missing_ok=True)
    return len(task.files)


def _put(temporary: Path, path: Path) -> None:
    _sync(temporary)
    temporary.replace(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
