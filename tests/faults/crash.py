"""The crash campaign: a real broker is killed at random points under load, many times over one data directory.

    python -m tests.faults.crash --kills 300 --seed 7

Checked over all lives together: no message with a receipt is lost, no acknowledgement with an answer is forgotten, no id is used
twice, and what was answered of partitioned topics stands. `make crash` runs it whole; the test suite runs a few kills of it.

Every life rolls its topics from ledger to ledger all the time. Beside that one of these goes on (`LIVES`):

    at work     nothing else
    at start    it is killed before it takes traffic, or just then
    loading     topics are unloaded again and again: each load may be the one that is cut off
    partitions  partitioned topics are made, grown and deleted
    full disk   the disk is filled to the last byte in the middle (where a small file system may be mounted); the next start may
                find it full
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
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from controlplane.child_process import environment, python
from messaging.settings import Settings
from tests.benchmarks.real_broker import RealBroker
from tests.faults.crash_client import CrashClient, Id, TenantRef
from tests.faults.crash_topics import Partitions, unload_again_and_again
from tests.support.small_disk import NotPermitted, SmallDisk, small_disk

TOPICS = 3
QUIET_S = 1.0  # nothing came for so long: everything was delivered
LAST_DELIVERY_S = 60.0
FIRST_ANSWER_S = 60.0
START_S = 1.2
DISK_BYTES = 512 << 20
# So that a life rolls ledgers and segments, and a disk can be full.
VALUES = {"ledger_entries_max": 150, "segment_bytes": 1 << 20, "reserved_bytes": 8 << 20}
LIVES = {"at work": 4, "at start": 1, "loading": 2, "partitions": 2, "full disk": 2}  # how often, to each other


class Campaign:
    """`disk`: the file system that `folder` is on, if it can be filled up. `values`: settings of the broker, such as where its
    messages are."""

    def __init__(self, folder: Path, seed: int, disk: SmallDisk | None = None, **values: object) -> None:
        self.folder = folder
        self.values = VALUES | values
        self.disk = disk
        self.chance = random.Random(seed)
        self.told = {f"persistent://public/default/crash-{number}": TenantRef() for number in range(TOPICS)}
        self.partitions = Partitions(self.chance)
        self.lives = Counter[str]()

    async def run(self, kills: int, progress: bool = False) -> None:
        """Raises `AssertionError` for the first promise that was broken."""
        kinds = [kind for kind, share in LIVES.items() for _ in range(share) if kind != "full disk" or self.disk is not None]
        order: list[str] = []
        for kill in range(kills):
            if not order:  # each kind comes, however few kills there are
                order = self.chance.sample(kinds, len(kinds))
            kind = order.pop() if kill else "at work"
            self.lives[kind] += 1
            await self._life(kind)
            self._check()
            if progress:
                print(
                    f"kill {kill + 1}, {kind}: {self.receipts} receipts, {self.acknowledged} acknowledgements answered", flush=True
                )
        await self._read_back()
        self._check()

    @property
    def receipts(self) -> int:
        return sum(len(told.receipts) for told in self.told.values())

    @property
    def acknowledged(self) -> int:
        return sum(len(told.acknowledged) for told in self.told.values())

    async def _life(self, kind: str) -> None:
        if kind == "at start":
            _kill_at_start(self.folder, self.chance.uniform(0.0, START_S), self.values)
            return
        broker = RealBroker(self.folder, **self.values)
        self.partitions.check(broker.rpc)
        clients = [CrashClient(told, topic, self.chance) for topic, told in self.told.items()]
        running = [asyncio.ensure_future(client.run(*broker.address)) for client in clients]
        beside: list[asyncio.Future[None]] = []
        answered = self.partitions.answered
        await asyncio.wait(running, timeout=self.chance.uniform(0.01, 0.4))  # they do not end by themselves: a random point
        for told in self.told.values():
            told.may_refuse = kind in ("loading", "full disk")
        if kind == "loading":
            beside.append(asyncio.ensure_future(asyncio.to_thread(unload_again_and_again, broker.rpc, list(self.told))))
        elif kind == "partitions":
            beside.append(asyncio.ensure_future(asyncio.to_thread(self.partitions.work, broker.rpc)))
        elif kind == "full disk" and self.disk is not None:
            await asyncio.to_thread(self.disk.fill)
        if kind != "at work":
            await asyncio.wait(running, timeout=self.chance.uniform(0.01, 0.6))
        if kind == "partitions":
            await self._until_partitions_changed(running, answered)
        assert not any(client.done() for client in running), "the broker closed a connection by itself"
        broker.kill()
        await asyncio.gather(*running, *beside)
        if kind == "full disk" and self.disk is not None:
            if self.chance.random() < 0.5:
                _kill_at_start(self.folder, self.chance.uniform(0.0, 2 * START_S), self.values)
            self.disk.empty()

    async def _until_partitions_changed(self, running: Sequence[asyncio.Future[None]], answered: int) -> None:
        """A change is many writes: on a slow disk none may be answered yet, and a kill would then prove little."""
        deadline = time.monotonic() + FIRST_ANSWER_S
        while self.partitions.answered == answered and time.monotonic() < deadline:
            done, _ = await asyncio.wait(running, timeout=0.05)
            if done:
                return

    async def _read_back(self) -> None:
        """A last life: everything that was receipted and not acknowledged is delivered, and nothing that was."""
        # Nothing is acknowledged here: the limit on what a consumer may hold must not pass for a loss.
        broker = RealBroker(self.folder, consumer_unacked_max=self.receipts + 1, **self.values)
        try:
            self.partitions.check(broker.rpc)
            for topic, told in self.told.items():
                client = CrashClient(told, topic, self.chance, publish=False)
                running = asyncio.ensure_future(client.run(*broker.address))
                await _until_quiet(client)
                delivered = set(client.delivered)
                lost: set[Id] = told.receipts.keys() - told.acknowledged - delivered
                # An acknowledgement that was sent and not answered may have been kept: such a message was delivered before.
                lost -= told.seen.keys()
                assert not lost, f"{topic}: {len(lost)} messages with a receipt are gone, first {min(lost)}, {len(delivered)} came"
                assert not delivered & told.acknowledged
                client.close()
                await running
        finally:
            broker.close()

    def _check(self) -> None:
        for topic, told in self.told.items():
            assert not told.faults, f"{topic}: {told.faults[:5]}"


def _kill_at_start(folder: Path, after_s: float, values: Mapping[str, object]) -> None:
    """Recovery is killed too: what it rewrites must not be less than what it found."""
    settings = Settings(data_dir=str(folder), broker_port=0, ws_port=0, log_level="warning", **values)  # type: ignore[arg-type]
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(python("messaging.broker"), env=os.environ | environment(settings), stdout=log, stderr=log)
        try:
            code = process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        else:
            said = (folder / "broker.log").read_text(errors="replace")[-2000:]
            raise AssertionError(f"the broker ended by itself while it started, with code {code}: {said}")


async def _until_quiet(client: CrashClient) -> None:
    deadline = time.monotonic() + LAST_DELIVERY_S
    while time.monotonic() < deadline:
        client.idle.clear()
        try:
            await asyncio.wait_for(client.idle.wait(), QUIET_S)
        except TimeoutError:
            return
    raise AssertionError(f"messages still come after {LAST_DELIVERY_S:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a broker at work, again and again, and see that it keeps its word.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    chosen = parser.parse_args()
    print(f"{chosen.kills} kills, seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder, "disk")
        try:
            disk = stack.enter_context(small_disk(path, DISK_BYTES))
        except NotPermitted as error:
            print(f"no small file system can be mounted here, so that no disk is filled up: {error}", flush=True)
            disk = None
        campaign = Campaign(path, chosen.seed, disk)
        asyncio.run(campaign.run(chosen.kills, progress=True))
    lives = ", ".join(f"{count} {kind}" for kind, count in sorted(campaign.lives.items()))
    print(f"kept: {campaign.receipts} receipts and {campaign.acknowledged} answered acknowledgements (seed {chosen.seed}; {lives})")
    print(f"partitioned topics: {campaign.partitions.answered} changes answered, all of which stood")
    return 0


if __name__ == "__main__":
    sys.exit(main())
