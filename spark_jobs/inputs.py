"""Which files a run's hours were computed from: kept beside its output, for whoever doubts a number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from spark_jobs.config import inputs_path
from spark_jobs.plan import Manifest, file_size


@dataclass(frozen=True)
class InputFile:
    """`name`: its path below the folder of raw records. `members`: how many files of brokers it was made of, or 1."""

    name: str
    sha256: str
    rows: int
    bytes: int
    source: str
    boot_epoch: int
    interval_start_ms: int
    interval_end_ms: int
    members: int


def write_inputs(manifests: Iterable[Manifest], output_directory: str, run_id: str) -> int:
    """Atomic; their size in bytes."""
    path = inputs_path(output_directory, run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    size = 0
    with temporary.open("w") as lines:
        for manifest in sorted(manifests, key=lambda manifest: manifest.name):
            input_file = InputFile(
                manifest.name,
                manifest.sha256,
                manifest.rows,
                file_size(manifest.path),
                manifest.source,
                manifest.boot_epoch,
                manifest.interval_start_ms,
                manifest.interval_end_ms,
                len(manifest.members),
            )
            size += input_file.bytes
            lines.write(json.dumps(asdict(input_file)) + "\n")
    temporary.replace(path)
    return size


def read_inputs(output_directory: str | Path, run_id: str, first: int, count: int) -> Iterator[InputFile]:
    """`count` of them from number `first` on; none where the list is not there (any more)."""
    try:
        with inputs_path(output_directory, run_id).open() as lines:
            for line in islice(lines, first, first + count):
                yield InputFile(**json.loads(line))
    except FileNotFoundError:
        return
