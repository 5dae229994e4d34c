"""The crash campaign: a real broker is killed at random points under load, many times over one data directory.

    python -m tests.faults.crash --kills 300 --seed 7

Checked over all lives together: no message with a receipt is lost, no acknowledgement with an answer is forgotten, no id is used
twice. `make crash` runs it whole; the test suite runs a few kills of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from controlplane.supervisor.standalone import environment, python
from messaging.settings import Settings
from tests.benchmarks.real_broker import RealBroker
from tests.faults.crash_client import CrashClient, Id, Told

TOPICS = 3
QUIET_S = 1.0  # nothing came for so long: everything was delivered
LAST_DELIVERY_S = 60.0
AT_START_SHARE = 0.1  # of the kills: before the broker takes traffic, or just then
START_S = 1.2


async def campaign(folder: Path, kills: int, seed: int, progress: bool = False) -> dict[str, Told]:
    """Topic -> what was promised. Raises `AssertionError` for the first promise that was broken."""
    chance = random.Random(seed)
    told = {f"persistent://public/default/crash-{number}": Told() for number in range(TOPICS)}
    for kill in range(kills):
        if kill and chance.random() < AT_START_SHARE:
            _kill_at_start(folder, chance.uniform(0.0, START_S))
            continue
        broker = RealBroker(folder)
        clients = [CrashClient(one, topic, chance) for topic, one in told.items()]
        running = [asyncio.ensure_future(client.run(*broker.address)) for client in clients]
        await asyncio.wait(running, timeout=chance.uniform(0.01, 0.4))  # they do not end by themselves: this is the random point
        assert not any(client.done() for client in running), "the broker closed a connection by itself"
        broker.kill()
        await asyncio.gather(*running)
        _check(told)
        if progress:
            receipts = sum(len(one.receipts) for one in told.values())
            acknowledged = sum(len(one.acknowledged) for one in told.values())
            print(f"kill {kill + 1}: {receipts} receipts, {acknowledged} acknowledgements answered", flush=True)
    await _read_back(folder, told, chance)
    _check(told)
    return told


def _kill_at_start(folder: Path, after_s: float) -> None:
    """Recovery is killed too: what it rewrites must not be less than what it found."""
    settings = Settings(data_dir=str(folder), broker_port=0, ws_port=0, log_level="warning")
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(python("messaging.broker"), env=os.environ | environment(settings), stdout=log, stderr=log)
        try:
            code = process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        else:
            raise AssertionError(f"the broker ended by itself while it started, with code {code}")


async def _read_back(folder: Path, told: dict[str, Told], chance: random.Random) -> None:
    """A last life: everything that was receipted and not acknowledged is delivered, and nothing that was."""
    # Nothing is acknowledged here: the limit on what a consumer may hold must not pass for a loss.
    broker = RealBroker(folder, consumer_unacked_max=sum(len(one.receipts) for one in told.values()) + 1)
    try:
        for topic, one in told.items():
            client = CrashClient(one, topic, chance, publish=False)
            running = asyncio.ensure_future(client.run(*broker.address))
            await _until_quiet(client)
            delivered = set(client.delivered)
            lost: set[Id] = one.receipts.keys() - one.acknowledged - delivered
            # An acknowledgement that was sent and not answered may have been kept: such a message was delivered before.
            lost -= one.seen.keys()
            assert not lost, f"{topic}: {len(lost)} messages with a receipt are gone, first {min(lost)}, {len(delivered)} came"
            assert not delivered & one.acknowledged
            client.close()
            await running
    finally:
        broker.close()


async def _until_quiet(client: CrashClient) -> None:
    deadline = time.monotonic() + LAST_DELIVERY_S
    while time.monotonic() < deadline:
        client.idle.clear()
        try:
            await asyncio.wait_for(client.idle.wait(), QUIET_S)
        except TimeoutError:
            return
    raise AssertionError(f"messages still come after {LAST_DELIVERY_S:.0f} s")


def _check(told: dict[str, Told]) -> None:
    for topic, one in told.items():
        assert not one.faults, f"{topic}: {one.faults[:5]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a broker at work, again and again, and see that it keeps its word.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.kills} kills, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        told = asyncio.run(campaign(Path(folder), chosen.kills, chosen.seed, progress=True))
    receipts = sum(len(one.receipts) for one in told.values())
    acknowledged = sum(len(one.acknowledged) for one in told.values())
    print(f"kept: {receipts} receipts and {acknowledged} answered acknowledgements over {chosen.kills} kills (seed {chosen.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
