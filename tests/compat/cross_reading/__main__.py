"""Runs the cases against a real Pulsar, and with ``--record`` writes down what was read there.

Needs `make clients`, and a Pulsar as `make oracle` does: BENCH_PEER, or `--pulsar` and `--pulsar-web`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.compat.cross_reading.cases import CASES
from tests.compat.cross_reading.run import JAVA, record, run
from tests.compat.oracle import a_pulsar


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.cross_reading", description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--pulsar", default="", metavar="URL")
    parser.add_argument("--pulsar-web", default="", metavar="URL")
    options = parser.parse_args()
    if not JAVA.ready:
        print("Apache's Java client is not installed: make clients")
        return 2
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        folder = Path(name)
        with a_pulsar(folder, options.pulsar, options.pulsar_web) as there:
            outcome = run(there, folder)
    differing = 0
    for direction, read in outcome.items():
        for name, case in CASES.items():
            if read[name] != [*case.texts]:
                differing += 1
                print(f"DIFFERS: {name}, {direction}\n  wanted {[*case.texts]}\n  read   {read[name]}")
    if options.record:
        record(outcome)
    print(f"{len(CASES)} cases, both ways, on a real Pulsar: {differing} differ from what was written")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
