"""One hour, or a part of its topics: partial sums put together, what they cannot say from the records, and the hour's files.
Runs inside Spark's Python workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from messaging.usage_schema import BILLED_COUNTERS, GAUGE_CARRY_MS_MAX
from spark_jobs.checksum import DETAIL_COLUMNS, DETAIL_KEY, HOUR_COLUMNS, HOUR_SUMS, INTEGRAL_OF, row_digest
from spark_jobs.config import JobFailed, SequenceGap, details_directory, load_directory, quarantine_directory, run_directory
from spark_jobs.details import detail_rows
from spark_jobs.exact import Amounts, amounts_in, decide, own
from spark_jobs.joined import amounts_of, gaps_of, join, suspects
from spark_jobs.partials import Batch, read_partials, replace, write_table
from spark_jobs.plan import HOUR_MS, Manifest, hour_folder, hour_name
from spark_jobs.raw_files import FileProblem, read_file
from spark_jobs.rows import ATTRIBUTES, COUNTED, Rows, expected, follows, judge, rows_of, sorted_by

INVALID = "invalid"  # breaks a rule of the schema
CONFLICT = "conflict"  # one identity with different contents
GAPS_MAX = 1000
_UNITS_END = 2**63  # numbers of an hour are 64-bit integers; 2.5 PB in one topic for an hour would pass that


@dataclass(frozen=True)
class HourTask:
    """`batches`: of the hour itself, and of the hours beside it as far as they are known. `files`: all raw files that may affect
    the hour. `begun`: the boots whose first file is of this hour."""

    hour_ms: int
    shards: range
    batches: tuple[Batch, ...]
    files: tuple[Manifest, ...]
    begun: tuple[tuple[str, int], ...]
    partials: Path
    output: Path
    run_id: str


@dataclass
class HourPart:
    """`unbilled`: of each counter, the sum in records that are quarantined or copies. `problems`: files that cannot be used."""

    hour_ms: int
    rows: int = 0
    digest_sum: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(HOUR_SUMS, 0))
    detail_rows: int = 0
    detail_digest_sum: int = 0
    duplicates: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    unbilled: Counter[str] = field(default_factory=Counter)
    gaps: list[SequenceGap] = field(default_factory=list)
    gap_count: int = 0
    exact_rows: int = 0
    problems: dict[str, str] = field(default_factory=dict)


def make_hour(task: HourTask) -> HourPart:
    """Writes the part's files and describes them. Running it again writes the same."""
    part = HourPart(task.hour_ms)
    tables = [read_partials(batch.path(task.partials, ".parquet"), task.shards) for batch in task.batches]
    joined = join(task.batches, tables, task.hour_ms)
    left_out = suspects(joined)
    amounts = amounts_of(joined, left_out)
    gaps = gaps_of(joined, task.batches, left_out, task.begun)
    refused: list[dict[str, Any]] = []
    if left_out.any():
        try:
            rows = _records_of(task, joined.series(left_out))
        except _Unusable as unusable:
            part.problems = unusable.problems
            return part
        part.exact_rows = len(rows)
        refused += _judge_records(part, rows, amounts, gaps, task)
    if task.shards.start == 0:
        refused += _invalid_records(part, task)
    part.gap_count, part.gaps = len(gaps), gaps[:GAPS_MAX]
    if refused:
        name = f"{hour_name(task.hour_ms)}-{task.shards.start:03}.json"
        _write_lines(quarantine_directory(task.output, task.run_id) / name, refused)
    _write_hour(part, amounts, task)
    _write_details(part, amounts, task)
    return part


class _Unusable(Exception):
    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__()
        self.problems = problems


def _records_of(task: HourTask, series: list[str]) -> Rows:
    """The records of these series near the hour."""
    wanted, tables, read, problems = pa.array(series), [], [], {}
    for manifest in task.files:
        if not _near(manifest, task.hour_ms):
            continue
        try:
            table = read_file(manifest)
        except FileProblem as problem:
            problems[manifest.name] = str(problem)
            continue
        tables.append(table.filter(pc.is_in(table["series"], wanted)))
        read.append(manifest)
    if problems:
        raise _Unusable(problems)
    rows, _ = rows_of(tables, read)
    return rows


def _near(manifest: Manifest, hour_ms: int) -> bool:
    return (
        manifest.interval_start_ms < hour_ms + HOUR_MS + GAUGE_CARRY_MS_MAX
        and manifest.interval_end_ms > hour_ms - GAUGE_CARRY_MS_MAX
    )


def _judge_records(part: HourPart, rows: Rows, amounts: Amounts, gaps: list[SequenceGap], task: HourTask) -> list[dict[str, Any]]:
    judged = judge(rows)
    verdict = decide(rows, judged, task.hour_ms)
    amounts.update(amounts_in(rows, judged, verdict.good, task.hour_ms))
    part.duplicates += len(verdict.copies)
    part.quarantined[CONFLICT] += len(verdict.conflicts)
    conflicts = rows.where(verdict.conflicts).records()
    _count_unbilled(part, [*conflicts, *rows.where(verdict.copies).records()])
    present = rows.where(np.sort(np.concatenate([verdict.good, verdict.conflicts])))
    gaps += _gaps_in(present, task)
    hour = hour_name(task.hour_ms)
    return [
        {**record, "reason": CONFLICT, "detail": "the same identity with different contents", "hour": hour} for record in conflicts
    ]


def _gaps_in(rows: Rows, task: HourTask) -> list[SequenceGap]:
    order = sorted_by(rows.codes["series"], rows.origin, rows.numbers["seq"])
    in_hour = own(rows, task.hour_ms)
    series, origin, seq = rows.codes["series"][order], rows.origin[order], rows.numbers["seq"][order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (series[1:] != series[:-1]) | (origin[1:] != origin[:-1])
    last = np.full(len(order), -1, dtype=np.int64)
    last[1:] = np.where(first[1:], -1, seq[:-1])
    starting = np.array([boot in task.begun for boot in rows.origins], dtype=bool)
    due, follow = expected(seq, last), follows(seq, last)
    missing = np.flatnonzero((seq > due) & in_hour[order] & (~first | starting[origin]))
    start, end = rows.numbers["interval_start_ms"], rows.numbers["interval_end_ms"]
    meters, total, value = rows.words["meter"].to_pylist(), rows.numbers["cumulative"][order], rows.numbers["value"][order]
    gaps = []
    for at in missing.tolist():
        counts = meters[rows.codes["meter"][order[at]]] in COUNTED
        before = int(total[at - 1]) if follow[at] else 0
        source, boot = rows.origins[origin[at]]
        name = rows.words["series"][int(series[at])].as_py()
        lost = int(total[at] - value[at]) - before if counts else None
        bounds = 0 if first[at] else int(end[order[at - 1]]), int(start[order[at]])
        gaps.append(SequenceGap(source, boot, name, int(due[at]), int(seq[at]) - 1, lost, *bounds))
    return gaps


def _invalid_records(part: HourPart, task: HourTask) -> list[dict[str, Any]]:
    """Records that break a rule, once each: where first found."""
    by_contents: dict[str, dict[str, Any]] = {}
    for batch in task.batches:
        if not batch.invalid or batch.hour_ms != task.hour_ms:
            continue
        for line in batch.path(task.partials, ".invalid.json").read_text().splitlines():
            record = json.loads(line)
            _count_unbilled(part, [record])
            contents = json.dumps({name: value for name, value in record.items() if name not in ("file", "row")}, sort_keys=True)
            part.duplicates += contents in by_contents
            by_contents.setdefault(contents, record)
    records = list(by_contents.values())
    part.quarantined[INVALID] += len(records)
    hour = hour_name(task.hour_ms)
    return [{**record, "reason": INVALID, "hour": hour} for record in records]


def _count_unbilled(part: HourPart, records: list[dict[str, Any]]) -> None:
    for record in records:
        part.unbilled[record["meter"]] += record["value"] or 0


def usage_rows(amounts: Mapping[tuple[str, ...], int], hour_ms: int) -> list[tuple[Any, ...]]:
    """In the order of `HOUR_COLUMNS`: one for each topic in which anything was used, by topic; and those without a topic, of what a
    namespace or tenant used. Raises `JobFailed`."""
    topics: dict[tuple[str, ...], list[int]] = {}
    columns = {meter: HOUR_SUMS.index(INTEGRAL_OF.get(meter, meter)) for meter in (*BILLED_COUNTERS, *INTEGRAL_OF)}
    for values, amount in amounts.items():
        of = dict(zip(ATTRIBUTES, values, strict=True))
        if of["meter"] not in columns:
            continue  # what is billed is not divided by clients
        units = amount if of["meter"] in COUNTED else amount // 1000
        if units >= _UNITS_END:
            raise JobFailed(f"{of['meter']} of {of['topic']} in {hour_name(hour_ms)} passes 2^63: nothing was published")
        key = (of["topic"], of["tenant_uid"], of["tenant"], of["namespace"])
        topics.setdefault(key, [0] * len(HOUR_SUMS))[columns[of["meter"]]] += units
    return [
        (hour_ms, tenant, tenant_uid, namespace, topic, *numbers)
        for (topic, tenant_uid, tenant, namespace), numbers in sorted(topics.items())
        if any(numbers)
    ]


def _write_hour(part: HourPart, amounts: Amounts, task: HourTask) -> None:
    rows = usage_rows(amounts, task.hour_ms)
    part.rows = len(rows)
    part.digest_sum = sum(row_digest(row) for row in rows)
    for place, name in enumerate(HOUR_COLUMNS):
        if name in part.sums:
            part.sums[name] = sum(row[place] for row in rows)
    if not rows:
        return
    columns = dict(zip(HOUR_COLUMNS, zip(*rows, strict=True), strict=True))
    types = {name: pa.int64() if name in HOUR_SUMS or name == "hour_start_ms" else pa.string() for name in HOUR_COLUMNS}
    folder = run_directory(task.output, task.run_id) / hour_folder(task.hour_ms)
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    write_table(table, folder / f"part-{task.shards.start:03}.parquet")
    lines = [dict(zip(HOUR_COLUMNS, row, strict=True)) for row in rows]
    _write_lines(load_directory(task.output, task.run_id) / f"{hour_name(task.hour_ms)}-{task.shards.start:03}.json", lines)


def _write_details(part: HourPart, amounts: Amounts, task: HourTask) -> None:
    rows = detail_rows(amounts, task.hour_ms)
    part.detail_rows = len(rows)
    part.detail_digest_sum = sum(row_digest(row) for row in rows)
    if not rows:
        return
    columns = dict(zip(DETAIL_COLUMNS, zip(*rows, strict=True), strict=True))
    folder = details_directory(run_directory(task.output, task.run_id)) / hour_folder(task.hour_ms)
    folder.mkdir(parents=True, exist_ok=True)
    types = {name: pa.string() if name in DETAIL_KEY else pa.int64() for name in DETAIL_COLUMNS}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    write_table(table, folder / f"part-{task.shards.start:03}.parquet")
    lines = [dict(zip(DETAIL_COLUMNS, row, strict=True)) for row in rows]
    name = f"{hour_name(task.hour_ms)}-{task.shards.start:03}.json"
    _write_lines(details_directory(load_directory(task.output, task.run_id)) / name, lines)


def _write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, "".join(json.dumps(record) + "\n" for record in records).encode())
