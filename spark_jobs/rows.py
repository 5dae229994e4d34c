"""Raw records as arrays of integers, and the rules of the schema on them. Runs inside Spark's Python workers.

Texts are codes: the place of a value in a dictionary that the files of a `Rows` share. A rule on texts is judged once for a group
of records that agree in all of them, which is a series; only rules on numbers are judged for each record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messaging.usage_schema import (
    API,
    COLUMNS,
    INTERVAL_MS_MAX,
    READABLE_VERSIONS,
    SCOPES,
    SEQUENCE_SPAN,
    TENANT,
    TOPIC,
    series_name,
)
from spark_jobs.plan import HOUR_MS, Manifest

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Column = npt.NDArray[Any]

WORDS: tuple[str, ...] = tuple(name for name, kind in COLUMNS if kind == "string" and name != "source")
ATTRIBUTES: tuple[str, ...] = tuple(name for name in WORDS if name != "series")
NUMBERS: tuple[str, ...] = tuple(name for name, kind in COLUMNS if kind != "string" and name != "boot_epoch")
SCOPE_OF: dict[str, str] = {meter: scope for scope, (counters, gauges) in SCOPES.items() for meter in (*counters, *gauges)}
COUNTED = frozenset(meter for counters, _ in SCOPES.values() for meter in counters)  # of any scope; the other meters are gauges

NULL, VERSION, METER, SERIES, NEGATIVE, INTERVAL, HOUR, OTHER_TENANT, OTHER_NAMESPACE, GOOD = range(10)
# In the order in which they are judged: a record has the first that applies.
PROBLEMS = (
    "a column is null",
    "another schema version",
    "an unknown meter",
    "series is not what its other columns say",
    "a negative number",
    "an interval that is empty or longer than a minute",
    "an interval across an hour",
    "a namespace of another tenant",
    "a topic of another namespace",
)


def sorted_by(*columns: Column) -> Ints:
    """Places in ascending order of the first column, then the second, and so on."""
    return np.lexsort(tuple(reversed(columns)))


def follows(seq: Ints, last: Ints) -> npt.NDArray[np.bool_]:
    """Whether numbers belong to the same span as `last`, the numbers before them in their series; -1 where there is none."""
    same: npt.NDArray[np.bool_] = last // SEQUENCE_SPAN == seq // SEQUENCE_SPAN
    return same


def expected(seq: Ints, last: Ints) -> Ints:
    """The numbers that come after `last`, or with which the span of `seq` begins if that is another."""
    return np.where(follows(seq, last), last + 1, seq - seq % SEQUENCE_SPAN)


@dataclass(frozen=True)
class Rows:
    """`codes[name][i]` is the place of a text in `words[name]`. `origin[i]`: which of `origins`, (source, boot epoch), it is of.
    `row[i]`: its number in the file `files[file[i]]`."""

    numbers: Mapping[str, Ints]
    codes: Mapping[str, Codes]
    words: Mapping[str, Any]
    origin: Codes
    origins: tuple[tuple[str, int], ...]
    row: Ints
    file: Codes
    files: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.origin)

    def where(self, chosen: npt.NDArray[Any]) -> Rows:
        """`chosen`: a mask, or places in order."""
        return Rows(
            {name: column[chosen] for name, column in self.numbers.items()},
            {name: column[chosen] for name, column in self.codes.items()},
            self.words,
            self.origin[chosen],
            self.origins,
            self.row[chosen],
            self.file[chosen],
            self.files,
        )

    def records(self) -> list[dict[str, Any]]:
        """As the schema has them, one by one, with the file and the row that each is from: for the few that somebody is to look
        at."""
        columns: dict[str, list[Any]] = {name: values.tolist() for name, values in self.numbers.items()}
        for name, codes in self.codes.items():
            columns[name] = self.words[name].take(pa.array(codes)).to_pylist()
        columns["source"] = [self.origins[index][0] for index in self.origin.tolist()]
        columns["boot_epoch"] = [self.origins[index][1] for index in self.origin.tolist()]
        columns["file"] = [self.files[index] for index in self.file.tolist()]
        columns["row"] = self.row.tolist()
        names = [*(name for name, _ in COLUMNS), "file", "row"]
        return [dict(zip(names, values, strict=True)) for values in zip(*(columns[name] for name in names), strict=True)]


def rows_of(tables: Sequence[Any], manifests: Sequence[Manifest]) -> tuple[Rows, list[dict[str, Any]]]:
    """`tables`: of `raw_files.read_file`, each with the manifest of its file. Also the records in which a column is null; they are
    not among the rows."""
    origins = [(manifest.source, manifest.boot_epoch) for manifest in manifests]
    known = tuple(sorted(set(origins)))
    places = {origin: place for place, origin in enumerate(known)}
    lacking: list[dict[str, Any]] = []
    whole = []
    for table, manifest in zip(tables, manifests, strict=True):
        if any(column.null_count for column in table.columns):
            full = table.drop_null()
            missing = np.logical_or.reduce([column.is_null().to_numpy() for column in table.columns])
            lacking += [{**record, "file": manifest.name} for record in table.filter(pa.array(missing)).to_pylist()]
            table = full
        whole.append(table)
    counts = np.array([table.num_rows for table in whole], dtype=np.int64)
    origin = np.repeat(np.array([places[boot] for boot in origins], dtype=np.int32), counts)
    file = np.repeat(np.arange(len(whole), dtype=np.int32), counts)
    together = pa.concat_tables(whole).unify_dictionaries().drop_columns(["source", "boot_epoch"])
    codes, words = {}, {}
    for name in WORDS:
        column = together[name]
        chunks = [chunk.indices.to_numpy() for chunk in column.chunks]
        codes[name] = np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int32)
        words[name] = column.chunk(0).dictionary if chunks else pa.array([], pa.string())
    numbers = {name: together[name].to_numpy() for name in NUMBERS}
    row = together["row"].to_numpy()
    return Rows(numbers, codes, words, origin, known, row, file, tuple(manifest.name for manifest in manifests)), lacking


@dataclass(frozen=True)
class Judged:
    """`group[i]`: of which group of equal texts record i is. `example[g]`: a record of group g, or -1 if there is none. `problem`:
    of `PROBLEMS`, or `GOOD`."""

    group: Codes
    example: Ints
    problem: npt.NDArray[np.int8]


def judge(rows: Rows) -> Judged:
    group, example = _groups(rows)
    of_group = np.full(len(example), GOOD, dtype=np.int8)
    used = np.flatnonzero(example >= 0)
    texts = attributes_of(rows, example[used])
    series = rows.words["series"].take(pa.array(rows.codes["series"][example[used]])).to_pylist()
    for place, name, values in zip(used.tolist(), series, texts, strict=True):
        of_group[place] = _problem_of_texts(name, values)
    problem = of_group[group]
    start, end = rows.numbers["interval_start_ms"], rows.numbers["interval_end_ms"]
    negative = (rows.numbers["value"] | rows.numbers["cumulative"] | rows.numbers["seq"]) < 0
    width = end - start
    for code, broken in (
        (VERSION, ~np.isin(rows.numbers["schema_version"], READABLE_VERSIONS)),
        (NEGATIVE, negative),
        (INTERVAL, (width <= 0) | (width > INTERVAL_MS_MAX)),
        (HOUR, start // HOUR_MS != (end - 1) // HOUR_MS),
    ):
        if broken.any():
            problem[broken & (problem > code)] = code
    return Judged(group, example, problem)


def attributes_of(rows: Rows, places: Ints) -> list[tuple[str, ...]]:
    """`ATTRIBUTES` of the records at these places."""
    columns = [rows.words[name].take(pa.array(rows.codes[name][places])).to_pylist() for name in ATTRIBUTES]
    return list(zip(*columns, strict=True))


def _groups(rows: Rows) -> tuple[Codes, Ints]:
    """Records of one series belong together, unless another text differs too: then they are a group of their own."""
    group = rows.codes["series"]
    example = np.full(len(rows.words["series"]), -1, dtype=np.int64)
    example[group[::-1]] = np.arange(len(rows) - 1, -1, -1)
    odd = np.zeros(len(rows), dtype=bool)
    for name in ATTRIBUTES:
        codes = rows.codes[name]
        odd |= codes != codes[example[group]]
    if not odd.any():
        return group, example
    places = np.flatnonzero(odd)
    _, first, inverse = np.unique(
        np.stack([rows.codes[name][places] for name in WORDS]), axis=1, return_index=True, return_inverse=True
    )
    group = group.copy()
    group[places] = len(example) + inverse.reshape(-1)
    return group, np.concatenate([example, places[first]])


DOMAINS = ("persistent", "non-persistent", "recycled")  # the last one of topics in the recycle bin


def _problem_of_texts(series: str, values: tuple[str, ...]) -> int:
    of = dict(zip(ATTRIBUTES, values, strict=True))
    tenant, namespace, topic = of["tenant"], of["namespace"], of["topic"]
    scope = SCOPE_OF.get(of["meter"])
    if scope is None:
        return METER
    part = (of["subscription"], of["key"])
    if series != series_name(of["meter"], of["tenant_uid"], topic or namespace, *part) or (scope == TOPIC and any(part)):
        return SERIES
    if scope == TENANT:
        return OTHER_TENANT if namespace else OTHER_NAMESPACE if topic else GOOD
    if scope == API and not topic:
        return GOOD if not namespace or namespace.startswith(f"{tenant}/") else OTHER_TENANT
    if not namespace.startswith(f"{tenant}/"):
        return OTHER_TENANT
    if not topic.startswith(tuple(f"{domain}://{namespace}/" for domain in DOMAINS)):
        return OTHER_NAMESPACE
    return GOOD
