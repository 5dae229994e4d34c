"""``magnetar bench``: runs the benchmarks of this folder and prints what they measured."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.benchmarks import first_light, load, report

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="magnetar bench", description="Measure this machine's floors and Magnetar against them.")
    parser.add_argument(
        "--dir", type=Path, help="where the broker writes; its disk is what is measured (default: the temporary folder)"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages to send; 0.1 is a quick look (default: 1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    parser.add_argument("--save", action="store_true", help="write the page and the JSON into docs/benchmarks/")
    options = parser.parse_args(arguments)
    start = time.monotonic()

    def progress(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - start:6.1f} s  {text}\n")

    try:
        result = report.stamp(first_light.run(options.dir, options.scale, progress))
    except load.Stalled as error:
        sys.stderr.write(f"magnetar: the benchmark did not get through: {error}\n")
        return 1
    if options.save:
        for path in report.write(result, DOCS):
            progress(str(path))
    if options.json:
        import json

        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        sys.stdout.write(report.markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
