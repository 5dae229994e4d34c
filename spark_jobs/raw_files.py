"""One raw file: read whole, checked against its manifest, and handed on as an Arrow table. Runs inside Spark's Python workers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from messaging.usage_schema import COLUMNS
from spark_jobs.plan import Manifest

TEXTS: tuple[str, ...] = tuple(name for name, kind in COLUMNS if kind == "string")
LATER_COLUMNS = ("tenant_uid", "subscription", "key")  # files of earlier schema versions lack them: they are taken for ""
_WORDS = pa.dictionary(pa.int32(), pa.string())
_LOW = (1 << 32) - 1


class FileProblem(Exception):
    """The file is left out; the message says why."""


def read_file(manifest: Manifest) -> Any:
    """All columns of the schema: texts dictionary-encoded, numbers as 64-bit integers; and `row`, the number of each record in the
    file, from 0. Raises `FileProblem`."""
    try:
        data = manifest.path.read_bytes()
    except OSError as error:
        raise FileProblem(f"cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != manifest.sha256:
        raise FileProblem(f"its SHA-256 is {digest}, the manifest says {manifest.sha256}")
    try:
        file = _open(data)
        if file.metadata.num_rows != manifest.rows:
            raise FileProblem(f"it has {file.metadata.num_rows} rows, the manifest says {manifest.rows}")
        present = set(file.schema_arrow.names)
        lacking = [name for name, _ in COLUMNS if name not in present and name not in LATER_COLUMNS]
        if lacking:
            raise FileProblem(f"it has no column {lacking[0]}")
        read = file.read(columns=[name for name, _ in COLUMNS if name in present], use_threads=False)
        table = pa.table({name: _column(read, name, kind) for name, kind in COLUMNS})
    except pa.ArrowException as error:
        raise FileProblem(f"it cannot be read as Parquet of the schema: {error}") from None
    _check(table, manifest)
    return table.append_column("row", pa.array(np.arange(table.num_rows)))


def _open(data: bytes) -> Any:
    try:
        return pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(TEXTS))
    except KeyError:  # of an earlier version, without one of these columns
        present = pq.read_schema(pa.BufferReader(data)).names
        return pq.ParquetFile(pa.BufferReader(data), read_dictionary=[name for name in TEXTS if name in present])


def _column(read: Any, name: str, kind: str) -> Any:
    if name not in read.column_names:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), read.num_rows), pa.array([""]))
    column = read.column(name)
    if kind != "string":
        return column if column.type == pa.int64() else column.cast(pa.int64())
    if column.type == _WORDS:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()).dictionary_encode()


def _check(table: Any, manifest: Manifest) -> None:
    if pc.unique(table["source"].drop_null()).to_pylist() not in ([manifest.source], []):
        raise FileProblem("it holds records of another broker than the manifest says")
    for name, lowest, highest in (
        ("boot_epoch", manifest.boot_epoch, manifest.boot_epoch),
        ("interval_start_ms", manifest.interval_start_ms, None),
        ("interval_end_ms", None, manifest.interval_end_ms),
    ):
        bounds = pc.min_max(table[name]).as_py()
        if bounds["min"] is None:
            continue
        if (lowest is not None and bounds["min"] < lowest) or (highest is not None and bounds["max"] > highest):
            what = (
                "records of another boot than the manifest says"
                if name == "boot_epoch"
                else "records outside the manifest's interval"
            )
            raise FileProblem(f"it holds {what}")
    sums = _sums(table)
    if sums != dict(manifest.sums):
        raise FileProblem(f"its sums are {sums}, the manifest says {dict(manifest.sums)}")


def _sums(table: Any) -> dict[str, int]:
    """Meter -> sum of values, whatever their size."""
    halves = pa.table(
        {
            "meter": table["meter"],
            "high": pc.shift_right(table["value"], 32),
            "low": pc.bit_wise_and(table["value"], _LOW),
        }
    )
    summed = halves.group_by("meter", use_threads=False).aggregate([("high", "sum"), ("low", "sum")])
    rows = zip(*(summed[name].to_pylist() for name in ("meter", "high_sum", "low_sum")), strict=True)
    return {str(meter): ((high or 0) << 32) + (low or 0) for meter, high, low in rows}
