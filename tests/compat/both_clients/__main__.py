"""Runs the list with both clients against a real Pulsar, and with ``--record`` writes down what it answered.

Needs a Pulsar as `make oracle` does: BENCH_PEER, or `--pulsar` and `--pulsar-web`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.compat.both_clients.run import CLIENTS, OVER_TCP, record, recorded, run_all
from tests.compat.both_clients.scenarios import SCENARIOS
from tests.compat.oracle import a_pulsar


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.both_clients", description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--pulsar", default="", metavar="URL")
    parser.add_argument("--pulsar-web", default="", metavar="URL")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="oracle-") as folder,
        a_pulsar(Path(folder), options.pulsar, options.pulsar_web) as there,
    ):
        outcomes = {client: run_all(CLIENTS[client], there, at_once=4) for client in OVER_TCP}
    wanted, stable, differing = recorded(), {}, 0
    for name in SCENARIOS:
        answers = {client: outcomes[client][name] for client in OVER_TCP}
        first = answers[OVER_TCP[0]]
        if all(answer == first for answer in answers.values()) and not (isinstance(first, dict) and "failed" in first):
            stable[name] = first
        if name not in stable or (not options.record and wanted.get(name) != first):
            differing += 1
            print(f"DIFFERS: {name}\n  recorded {json.dumps(wanted.get(name))}")
            print("".join(f"  {client}: {json.dumps(answer)[:600]}\n" for client, answer in answers.items()), end="")
    if options.record:
        record(stable)
    print(f"{len(SCENARIOS)} scenarios with {len(OVER_TCP)} clients on a real Pulsar: {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
