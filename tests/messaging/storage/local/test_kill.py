"""A real process, really killed: what it said to be confirmed is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.storage.owning import started
from tests.support.storage.workload import entry_bytes

pytestmark = pytest.mark.asyncio

PROGRAM = """
import asyncio, sys
from array import array
from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.storage.owning import started
from tests.support.storage.workload import entry_bytes

async def main():
    store = LocalLedgerStore(sys.argv[1], LocalConfig(segment_bytes=256 << 10, reserved_bytes=0, checkpoint_bytes=32 << 10))
    fence = await started(store)
    ids = [fence.epoch * 10 + number for number in range(3)]
    writers = [await store.create(fence, ledger_id, {}) for ledger_id in ids]

    def append(writer):
        first = writer.next_entry
        data, stops = b"", array("I")
        for entry in range(first, first + 3):
            data += entry_bytes(writer.ledger_id, entry)
            stops.append(len(data))
        def done(error):
            if error is None:
                sys.stdout.write(f"{writer.ledger_id} {first + 2}\\n")
                sys.stdout.flush()
                append(writer)
        writer.append(b"", data, stops, done)

    for writer in writers:
        for _ in range(10):
            append(writer)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_killed_again_and_again(tmp_path: Path, repository: Path) -> None:
    random = Random(4)
    confirmed: dict[int, int] = {}
    for _ in range(5):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=repository) as process:  # noqa: ASYNC220
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(random.randrange(50, 3000))]
            process.kill()
            said += process.stdout.read().splitlines()[:-1]  # the last may be cut
        for line in said:
            told_id, told_last = line.split()
            confirmed[int(told_id)] = int(told_last)
        assert confirmed
        store = LocalLedgerStore(
            tmp_path / "log", LocalConfig(segment_bytes=256 << 10, reserved_bytes=0, checkpoint_bytes=32 << 10)
        )
        fence = await started(store)
        assert not [damage for damage in store.damage if damage.synced]
        for ledger_id, last in confirmed.items():
            info = await store.seal(fence, ledger_id)
            assert info.last_entry >= last
            reader = await store.open(ledger_id)
            entry = 0
            while entry <= info.last_entry:
                for block in await reader.read(entry, entries_max=1000, bytes_max=1 << 20):
                    begin = 0
                    for stop in block.end_offsets:
                        assert bytes(block.data[begin:stop]) == entry_bytes(ledger_id, entry)
                        begin, entry = stop, entry + 1
        await store.stop()
