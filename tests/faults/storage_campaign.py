"""The storage campaign: what a log needs is used up, and what an operator does to a data directory.

    python -m tests.faults.storage_campaign --seed 7

- used up: descriptors, inodes, memory or disk space are gone for a while, at random moments of lives of a log that end with a kill
  or a stop. The log never fails for good, and keeps all that it confirmed.
- removed, older: every file of a broker's data directory is removed, or replaced by what it was in each of some older backups,
  after a clean stop and after a kill. The broker refuses to start and says what to do, or nothing that was confirmed is missing.
- clock: the broker starts with a clock that went back or ahead. Nothing is missing, and ids go on rising.

`make storage-campaign` runs all of it; the test suite runs a seeded part.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from unittest import mock

import msgspec

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.atomic_files import make_directory
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.main import start
from messaging.clock import wall_ms
from messaging.errors import StorageFailed
from messaging.identity import create_secrets
from messaging.protocol.names import parse_topic
from messaging.settings import ConfigError, Settings
from messaging.storage.local import LocalLedgerStore
from tests.support.brokers.storage_broker import NAMESPACE, TOPIC, publish
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started
from tests.support.storage.power_loss import CONFIG, DIRECTORY
from tests.support.storage.workload import Workload, check

USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM)
NEEDS_SOMETHING = ("open", "allocate", "rename", "sync_directory", "remove")  # operations that make, name or remove a file
TO_DO = re.compile(r"restore|magnetar log repair|choose another|free some space")
A_YEAR_MS = 365 * 86_400_000
CLOCKS_MS = (-10 * A_YEAR_MS, -86_400_000, -1_000, 86_400_000, 10 * A_YEAR_MS)


# --- used up


async def used_up(random: Random, lives: int, steps: int) -> int:
    """Lives of a log in which something is used up now and then. Returns how many operations were refused."""
    workload, disk, refused = Workload(random), FakeDisk(), 0
    for _ in range(lives):
        disk.heal()
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
        fence = await started(store)
        await check(store, fence, workload.promises)
        code, share = random.choice(USED_UP), random.choice((0.2, 1.0))

        def refuses(kind: str, path: Path, number: int, code: int = code, share: float = share) -> bool | int:
            return code if kind in NEEDS_SOMETHING and random.random() < share else False

        for _ in range(3):
            fault = disk.fail(refuses, surely=False)
            await workload.run(store, fence, steps)
            refused += fault.fired
            assert store.failed is None, f"{errno.errorcode[code]} ended the log: {store.failed}"
            disk.heal()
            await workload.run(store, fence, steps)
            assert store.failed is None
        left = disk.frozen()
        await store.stop()
        disk = random.choice((left, disk))  # killed or stopped
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await check(store, await started(store), workload.promises)
    assert store.damage == []
    await store.stop()
    return refused


# --- a data directory


class DataDirectory:
    """Three lives of a broker, each with messages and a new subscription: `states` are what each left, by what ended it, and
    `backups` copies that were taken in between, cold and hot. `published`: by state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(
            data_dir=str(folder / "data"),
            broker_port=0,
            ws_port=0,
            broker_rpc_port=0,
            segment_bytes=1 << 20,
            reserved_bytes=1 << 20,
            ledger_entries_max=15,
        )
        self.states: dict[str, Path] = {}
        self.backups: list[Path] = []
        self.published: dict[str, int] = {}

    async def make(self) -> None:
        data = Path(self.settings.data_dir)
        make_directory(data)
        create_secrets(self.settings)
        for life in range(3):
            async with AsyncExitStack() as stack:
                service = await opened(self.settings, stack)
                for part in range(2):
                    first = (2 * life + part) * 10
                    for number in range(first, first + 10):
                        await publish(service, number, number + 1, size=40_000)
                    if part == 0:
                        self._keep(data, f"backup-{life}-hot")
                self.states["killed"] = self._keep(data, f"killed-{life}")
                self.published["killed"] = self.published["stopped"] = first + 10
            self.states["stopped"] = self._keep(data, f"stopped-{life}")
            if life < 2:
                self.backups += [self.states["stopped"], self.folder / f"backup-{life}-hot"]
        self.backups.append(self.folder / "backup-2-hot")

    def _keep(self, data: Path, name: str) -> Path:
        return Path(shutil.copytree(data, self.folder / name, ignore=shutil.ignore_patterns("lock")))

    def cases(self) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
        """(what, state, what to do to a copy of that state)."""
        for state, folder in self.states.items():
            for path in sorted(path.relative_to(folder) for path in (folder / "broker").rglob("*") if path.is_file()):
                yield f"removed {path}", state, lambda data, path=path: (data / path).unlink()  # type: ignore[misc]
                for backup in self.backups:
                    older = backup / path
                    if not older.exists():
                        continue
                    if older.read_bytes() != (folder / path).read_bytes():
                        copy = lambda data, path=path, older=older: shutil.copy(older, data / path)  # noqa: E731
                        yield f"{path} of {backup.name}", state, copy  # type: ignore[misc]
            for backup in self.backups:
                yield f"the metadata of {backup.name}", state, lambda data, backup=backup: _metadata_of(backup, data)  # type: ignore[misc]

    async def ends_well(self, what: str, state: str, harm: Callable[[Path], None]) -> str:
        """ "refused" or "whole"; "damage" where what is missing is reported. Fails if something is missing without a word."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            data = Path(shutil.copytree(self.states[state], Path(place) / "data"))
            harm(data)
            settings = msgspec.structs.replace(self.settings, data_dir=str(data))
            try:
                return await self._outcome(settings, self.published[state])
            except ConfigError as error:
                assert TO_DO.search(str(error)), f"{what}, {state}: refused without what to do: {error}"
                return "refused"
            except AssertionError as error:
                raise AssertionError(f"{what}, {state}: {error}") from error

    async def _outcome(self, settings: Settings, published: int) -> str:
        async with AsyncExitStack() as stack:
            service = await opened(settings, stack)
            numbers = await _readable(service)
            missing = set(range(published)) - numbers
            damaged = sum(service.storage.damage.values())
            assert not missing or damaged, f"{len(missing)} messages are missing without a word"
            await publish(service, 1_000, 1_001)
            assert 1_000 in await _readable(service)
        async with AsyncExitStack() as stack:  # what was published since is there after another start
            assert await _readable(await opened(settings, stack)) >= numbers | {1_000}
        return "damage" if missing else "whole"

    async def under_another_clock(self, ahead_ms: int) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            data = Path(shutil.copytree(self.states["killed"], Path(place) / "data"))
            settings = msgspec.structs.replace(self.settings, data_dir=str(data))
            with mock.patch("messaging.broker.runtime.main.wall_ms", lambda: wall_ms() + ahead_ms):
                assert await self._outcome(settings, self.published["killed"]) == "whole"


def _metadata_of(backup: Path, data: Path) -> None:
    """All files of the database together, as an operator restores it."""
    for file in (data / "broker").glob("meta.sqlite3*"):
        file.unlink()
    for file in (backup / "broker").glob("meta.sqlite3*"):
        shutil.copy(file, data / "broker")


async def _readable(service: Broker) -> set[int]:
    """The numbers of the messages that can be read back; damaged ones are passed over."""
    topic = await service.topics.get(parse_topic(TOPIC), create=True)
    numbers: set[int] = set()
    position = topic.ledger_list.resolve(topic.ledger_list.first)
    while topic.ledger_list.holds(position):
        try:
            stored = await topic.entries.entry_at(position)
        except StorageFailed:
            stored = None
        if stored is not None:
            numbers.add(int(bytes(stored.payload).rstrip(b".")))
        position = topic.ledger_list.next_after(position)
    return numbers


async def opened(settings: Settings, stack: AsyncExitStack) -> Broker:
    service = await start(settings, stack)
    stack.push_async_callback(service.stop)
    if not service.access.view.version:  # the web process tells everything again
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(
                version=2, kind="namespace", key=NAMESPACE, state={"policies": {"retention_time_min": -1, "retention_size_mb": -1}}
            ),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
    return service


async def _main(seed: int) -> int:
    random = Random(seed)
    refused = sum([await used_up(random, lives=5, steps=120) for _ in range(40)])
    sys.stdout.write(f"used up: {refused} operations refused in 200 lives\n")
    with tempfile.TemporaryDirectory() as folder:
        directory = DataDirectory(Path(folder))
        await directory.make()
        outcomes: Counter[str] = Counter()
        for what, state, harm in directory.cases():
            outcome = await directory.ends_well(what, state, harm)
            outcomes[outcome] += 1
            sys.stdout.write(f"{outcome:8} {state}: {what}\n")
        sys.stdout.write(f"{dict(outcomes)}\n")
        for ahead_ms in CLOCKS_MS:
            await directory.under_another_clock(ahead_ms)
        sys.stdout.write(f"clock: whole after {len(CLOCKS_MS)} jumps\n")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(asyncio.run(_main(parser.parse_args().seed)))
