"""Usage as a file: the Parquet that a customer downloads, and what `magnetar usage verify` reads. Needs no Django."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

from workers.rating.errors import RatingError
from workers.rating.units import METERS
from workers.rating.verify import UsageRow

TEXT_COLUMNS = ("namespace", "topic")
ROWS_A_GROUP = 50_000


def write_usage(rows: Iterable[UsageRow], file: IO[bytes]) -> int:
    """Columns `hour` (timestamp, UTC), `namespace`, `topic` and one of integers for each meter. Returns the number of rows;
    `ROWS_A_GROUP` of them at a time are in memory."""
    import arro3.core as arrow
    from arro3.io import write_parquet

    string, int64, moment = arrow.DataType.string(), arrow.DataType.int64(), arrow.DataType.timestamp("ms", tz="UTC")
    fields = [arrow.Field("hour", moment, nullable=False)]
    fields += [arrow.Field(name, string, nullable=False) for name in TEXT_COLUMNS]
    fields += [arrow.Field(name, int64, nullable=False) for name in METERS]
    schema = arrow.Schema(fields)
    count = 0

    def batches() -> Iterator[Any]:
        nonlocal count
        left = iter(rows)
        while some := list(islice(left, ROWS_A_GROUP)):
            count += len(some)
            hours = arrow.Array([int(row.hour.timestamp()) * 1000 for row in some], type=int64).cast(moment)
            columns = [hours, *(arrow.Array([getattr(row, name) for row in some], type=string) for name in TEXT_COLUMNS)]
            columns += [arrow.Array([row.quantities.get(meter, 0) for row in some], type=int64) for meter in METERS]
            yield arrow.RecordBatch.from_arrays(columns, schema=schema)

    write_parquet(arrow.RecordBatchReader.from_batches(schema, batches()), file, compression="zstd(3)")
    return count


def read_usage(paths: Iterable[Path]) -> Iterator[UsageRow]:
    """Rows of files that `write_usage` made, or of all `*.parquet` in folders. Raises `RatingError` for other files."""
    from arro3.io import read_parquet

    for path in _files(paths):
        try:
            for batch in read_parquet(path):
                names = batch.schema.names
                meters = [name for name in names if name in METERS]
                hours, namespaces, topics, *values = (batch.column(name).to_pylist() for name in ("hour", *TEXT_COLUMNS, *meters))
                for at, namespace, topic, *quantities in zip(hours, namespaces, topics, *values, strict=True):
                    yield UsageRow(_hour(at), namespace, topic, dict(zip(meters, quantities, strict=True)))
        except (OSError, ValueError) as error:
            raise RatingError(f"{path} is not a file of usage: {error}") from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the reader's, for files that are cut off or damaged inside
                raise
            raise RatingError(f"{path} is damaged: download it again") from None


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise RatingError(f"there is no file {path}")
        for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
            if _end_of(file) != b"PAR1":
                raise RatingError(f"{file} is not a Parquet file, or its end is missing")
            yield file


def _hour(value: Any) -> datetime:
    at = value if isinstance(value, datetime) else datetime.fromtimestamp(int(value) / 1000, UTC)
    return at.astimezone(UTC)


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4))
        return file.read()
