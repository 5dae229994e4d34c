"""Partial sums: what some files of one broker and one hour amount to for each series, as one row.

A batch is a number of raw files of one boot and one hour. Its partial sums are kept under the checksum of its files, so an hour
that a late file is added to costs that file. They say enough to be put together without the records: up to where the sequence
numbers and the time of each series reach, and what a gauge held last. Where that does not suffice, because batches overlap or the
records of a series are out of order, the series is `suspect`, and its records are judged one by one (`exact`).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from messaging.usage_schema import COLUMNS, GAUGE_CARRY_MS_MAX, SCOPES
from spark_jobs.exact import LOW
from spark_jobs.plan import Manifest, hour_folder
from spark_jobs.raw_files import FileProblem, read_file
from spark_jobs.rows import ATTRIBUTES, COUNTED, GOOD, PROBLEMS, WORDS, Ints, Judged, Rows, expected, follows, judge, rows_of

FORMAT = sha256(repr(("2", COLUMNS, SCOPES, GAUGE_CARRY_MS_MAX)).encode()).hexdigest()[:12]
SHARDS = 256  # series are spread over as many by topic, so that a large hour can be put together in parts
GAPS_MAX = 1000
_ROW_GROUP = 32_768
Gap = tuple[str, int, int, int | None, int, int]
# Of the first and the last record of a series in the batch.
MEASURES = (
    "rows", "seq_min", "seq_max", "high", "low", "first_start", "last_end", "last_value", "total_before", "last_total", "suspect"
)  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """`members`: name -> SHA-256 of its raw files. `partial_rows`: series. `gaps`: (series, first missing, last missing, missing
    value or None, from ms, until ms), at most `GAPS_MAX`. `problems`: files that were left out, and why."""

    id: str
    hour_ms: int
    source: str
    boot_epoch: int
    members: Mapping[str, str]
    rows: int = 0
    interval_start_ms: int = 0
    interval_end_ms: int = 0
    partial_rows: int = 0
    suspect_rows: int = 0
    invalid: int = 0
    gaps: tuple[Gap, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    format: str = FORMAT

    def path(self, directory: Path, suffix: str) -> Path:
        return directory / hour_folder(self.hour_ms) / f"{self.id}{suffix}"


def batch_id(manifests: Sequence[Manifest]) -> str:
    lines = sorted(f"{name} {sha256}\n" for manifest in manifests for name, sha256 in manifest.members)
    return sha256("".join([FORMAT, *lines]).encode()).hexdigest()[:40]


def make_batch(manifests: Sequence[Manifest], directory: Path) -> Batch:
    """Reads the files and writes their partial sums below `directory`; files that cannot be used are left out and named. A batch
    that is there already is written once more, with the same contents."""
    tables, whole, problems = [], [], {}
    for manifest in sorted(manifests, key=lambda manifest: (manifest.interval_start_ms, manifest.name)):
        try:
            tables.append(read_file(manifest))
            whole.append(manifest)
        except FileProblem as problem:
            problems[manifest.name] = str(problem)
    first = manifests[0]
    if not whole:
        return Batch("", first.hour_ms, first.source, first.boot_epoch, {}, problems=problems)
    rows, invalid = rows_of(tables, whole)
    del tables
    judged = judge(rows)
    bad = np.flatnonzero(judged.problem != GOOD)
    invalid = [{**record, "detail": PROBLEMS[0]} for record in invalid]
    details = [PROBLEMS[code] for code in judged.problem[bad].tolist()]
    invalid += [{**record, "detail": detail} for record, detail in zip(rows.where(bad).records(), details, strict=True)]
    table, gaps = partial_sums(rows, judged)
    batch = Batch(
        batch_id(whole),
        first.hour_ms,
        first.source,
        first.boot_epoch,
        dict(member for manifest in whole for member in manifest.members),
        sum(manifest.rows for manifest in whole),
        min(manifest.interval_start_ms for manifest in whole),
        max(manifest.interval_end_ms for manifest in whole),
        table.num_rows,
        int(table["suspect"].to_numpy() @ table["rows"].to_numpy()),
        len(invalid),
        tuple(gaps),
        problems,
    )
    batch.path(directory, ".parquet").parent.mkdir(parents=True, exist_ok=True)
    if invalid:
        replace(batch.path(directory, ".invalid.json"), "".join(json.dumps(record) + "\n" for record in invalid).encode())
    write_table(table, batch.path(directory, ".parquet"))
    replace(batch.path(directory, ".json"), json.dumps(batch.__dict__ | {"problems": {}}, sort_keys=True).encode())
    return batch


def batch_from(path: Path) -> Batch | None:
    """The batch that was written at `path` last; None if it is not of this release or not whole."""
    try:
        fields = json.loads(path.read_bytes())
        batch = Batch(**(fields | {"gaps": tuple(tuple(gap) for gap in fields["gaps"])}))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return batch if batch.format == FORMAT and path.with_suffix(".parquet").exists() else None


def partial_sums(rows: Rows, judged: Judged) -> tuple[Any, list[Gap]]:
    """The good records' sums by series, ordered by shard; and gaps between sequence numbers."""
    keep = np.flatnonzero(judged.problem == GOOD)
    order = keep[np.argsort(judged.group[keep], kind="stable")]
    group = judged.group[order]
    seq, start, end, value, total = (
        rows.numbers[name][order] for name in ("seq", "interval_start_ms", "interval_end_ms", "value", "cumulative")
    )
    new = np.ones(len(order), dtype=bool)
    np.not_equal(group[1:], group[:-1], out=new[1:])
    heads = np.flatnonzero(new)
    tails = np.append(heads[1:] - 1, len(order) - 1)[: len(heads)]
    step, wait, same = np.diff(seq), np.diff(start) - (end - start)[:-1], ~new[1:]
    examples = judged.example[group[heads]]
    meters = rows.words["meter"].to_pylist()
    counters = np.array([meter in COUNTED for meter in meters], dtype=bool)
    is_counter = counters[rows.codes["meter"][examples]] if len(heads) else np.empty(0, dtype=bool)
    times = end - start
    times[:-1] += np.where(same & (wait <= GAUGE_CARRY_MS_MAX), wait, 0)
    times[np.repeat(is_counter, np.diff(np.append(heads, len(order))))] = 1
    disorder = np.zeros(len(order), dtype=np.int64)
    disorder[1:] = same & ((step <= 0) | (wait < 0))

    def summed(column: Ints) -> Ints:
        return np.add.reduceat(column, heads) if len(heads) else column[:0]

    suspect = summed(disorder) > 0
    suspect |= _of_one_series(rows, examples)
    shard = _shards(rows)[rows.codes["topic"][examples], rows.codes["tenant"][examples]] if len(heads) else heads
    measures = {
        "rows": tails - heads + 1,
        "seq_min": seq[heads],
        "seq_max": seq[tails],
        "high": summed((value >> 32) * times),
        "low": summed((value & LOW) * times),
        "first_start": start[heads],
        "last_end": end[tails],
        "last_value": value[tails],
        "total_before": np.where(is_counter, total[heads] - value[heads], 0),
        "last_total": total[tails],
        "suspect": suspect.astype(np.int64),
    }
    by_shard = np.argsort(shard, kind="stable")
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(rows.codes[name][examples[by_shard]]), rows.words[name]) for name in WORDS
    }
    table = pa.table({**columns, "shard": shard[by_shard], **{name: measures[name][by_shard] for name in MEASURES}})
    due = expected(seq[1:], seq[:-1])
    gaps = np.flatnonzero(same & (seq[1:] > due))[:GAPS_MAX]
    before = np.where(follows(seq[1:], seq[:-1]), total[:-1], 0)
    names = rows.words["series"].take(pa.array(rows.codes["series"][order[gaps]])).to_pylist()
    counted = counters[rows.codes["meter"][order[gaps]]]
    lost = [int(total[at + 1] - value[at + 1] - before[at]) if counts else None for at, counts in zip(gaps, counted, strict=True)]
    gap_rows = [
        (name, int(due[at]), int(seq[at + 1]) - 1, missing, int(end[at]), int(start[at + 1]))
        for name, at, missing in zip(names, gaps, lost, strict=True)
    ]
    return table, gap_rows


def read_partials(path: Path, shards: range) -> Any:
    """The rows of these shards."""
    file = pq.ParquetFile(path, read_dictionary=list(WORDS), memory_map=True)
    if len(shards) == SHARDS:
        return file.read(use_threads=False)
    column = file.schema_arrow.get_field_index("shard")
    wanted = []
    for index in range(file.num_row_groups):
        statistics = file.metadata.row_group(index).column(column).statistics
        if statistics.max >= shards.start and statistics.min < shards.stop:
            wanted.append(index)
    table = file.read_row_groups(wanted, use_threads=False)
    shard = table["shard"].to_numpy()
    return table.filter(pa.array((shard >= shards.start) & (shard < shards.stop)))


def shard_of(topic: str, tenant: str) -> int:
    return zlib.crc32((topic or tenant).encode()) % SHARDS


def _of_one_series(rows: Rows, examples: Ints) -> npt.NDArray[np.bool_]:
    """Groups that have a series in common with another: the texts of its records do not agree."""
    series = rows.codes["series"][examples]
    counts = np.bincount(series, minlength=1)
    return counts[series] > 1


class _Shards:
    """The shard of a topic, or of the tenant of what belongs to no topic."""

    def __init__(self, topics: list[str], tenants: list[str]) -> None:
        self._topics = np.array([shard_of(topic, "") for topic in topics], dtype=np.int64)
        self._tenants = np.array([shard_of("", tenant) for tenant in tenants], dtype=np.int64)
        self._none = topics.index("") if "" in topics else -1

    def __getitem__(self, codes: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]) -> Ints:
        topic, tenant = codes
        return np.where(topic == self._none, self._tenants[tenant], self._topics[topic])


def _shards(rows: Rows) -> _Shards:
    return _Shards(rows.words["topic"].to_pylist(), rows.words["tenant"].to_pylist())


def write_table(table: Any, path: Path) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    pq.write_table(table, temporary, compression="zstd", row_group_size=_ROW_GROUP, use_dictionary=list(WORDS))
    temporary.replace(path)


def replace(path: Path, data: bytes) -> None:
    """Atomic: of two that write the same at once, either does."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


assert set(ATTRIBUTES) < set(WORDS)
