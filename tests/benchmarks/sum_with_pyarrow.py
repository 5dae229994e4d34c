"""Reads usage files with pyarrow and sums them; writes how long that took. Run as a script: sum_with_pyarrow.py RAW ANSWER"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq


def main(raw: Path, answer: Path) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    rows = 0
    for hour in sorted(raw.glob("date=*/hour=*")):
        table = pq.ParquetDataset(sorted(hour.glob("*.parquet"))).read()
        table.group_by(["tenant", "namespace", "topic", "meter"]).aggregate([("value", "sum")])
        rows += table.num_rows
    answer.write_text(json.dumps({"rows": rows, "seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
