from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.compat.fleet import network, programs
from tests.compat.fleet.campaign import Campaign
from tests.compat.fleet.faults import Fault, faults_for
from tests.compat.fleet.machines import Machines
from tests.compat.fleet.platforms import OneMachine, Platform
from tests.support import postgresql_server
from tests.support.bookkeeper import install


def share(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill, stop and cut off brokers under stock clients, and see that they keep their word."
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--stop-s", type=float, default=60.0, help="how long a stopped broker is stopped")
    parser.add_argument("--database", default="", help="URL of an empty PostgreSQL database, where all brokers are to store")
    parser.add_argument("--machines", action="store_true", help="a network namespace for each broker, and PostgreSQL in one")
    parser.add_argument("--bookies", action="store_true", help="with --machines: messages on bookies, each in a namespace too")
    parser.add_argument(
        "--earlier",
        type=Path,
        help="a folder with an installed earlier release; every other machine's broker is of it",
    )
    parser.add_argument("--only", default="", help="what may happen, with commas, such as 'cut_off,kill'")
    parser.add_argument("--pause-ms", type=int, default=100, help="of each publisher after a message; longer for a busy machine")
    parser.add_argument("--keep", default="", help="a folder for what the processes write, and for figures.json")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    missing = programs.missing()
    if missing:
        print(f"without {' and '.join(missing)}: make clients", flush=True)
    print(f"{chosen.rounds} rounds with {chosen.brokers} brokers, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(chosen.keep or made)
        platform = _platform(chosen, folder / "data")
        campaign = Campaign(
            platform,
            folder,
            chosen.seed,
            stop_s=chosen.stop_s,
            pause_s=chosen.pause_ms / 1000,
            programs=[] if missing else [programs.JAVA, programs.GO],
            faults=_only(platform, chosen.only),
            progress=lambda line: print(line, flush=True),
        )
        try:
            asyncio.run(campaign.run(chosen.rounds))
        finally:
            (folder / "figures.json").write_text(json.dumps(campaign.again_s))
    rounds = ", ".join(f"{count} {kind}" for kind, count in sorted(campaign.rounds.items()))
    print(
        f"kept: {campaign.receipts} receipts and {campaign.acknowledged} answered acknowledgements (seed {chosen.seed}; {rounds})"
    )
    for what, took_s in sorted((what, took_s) for what, took_s in campaign.again_s.items() if took_s):
        median, p99 = statistics.median(took_s), share(took_s, 0.99)
        print(f"first receipt after {what}: median {median:.2f} s, p99 {p99:.2f} s, of {len(took_s)} topics")
    return 0


def _platform(chosen: argparse.Namespace, folder: Path) -> Platform:
    if not chosen.machines:
        urls = {"MAGNETAR_METADATA_URL": chosen.database, "MAGNETAR_LEDGER_URL": chosen.database} if chosen.database else {}
        return OneMachine(folder, chosen.brokers, **urls)
    refused = network.refused_by() or ("" if postgresql_server.installed() else f"no PostgreSQL: {postgresql_server.NEEDED}")
    if chosen.bookies and not install.ready():
        refused = refused or f"no bookies: {install.NEEDED}"
    if refused:
        sys.exit(f"no machines can be made here: {refused}")
    earlier = chosen.earlier.absolute() if chosen.earlier else None
    return Machines(folder, chosen.brokers, on_bookies=chosen.bookies, earlier=earlier)


def _only(platform: Platform, names: str) -> dict[Fault, int] | None:
    if not names:
        return None
    known = {fault.__name__: fault for fault in faults_for(platform)}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        sys.exit(f"{unknown[0]} does not happen to these brokers: one of {', '.join(sorted(known))}")
    return {known[name]: 1 for name in names.split(",")}


if __name__ == "__main__":
    sys.exit(main())
