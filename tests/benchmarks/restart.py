"""Restart after `kill -9`: how long until the log is open, what the open store holds, and when the first publish is accepted.

    python -m tests.benchmarks.restart --topics 100000 --gib 20 --dir /a/disk

A process fills a data directory through `LocalLedgerStore` and `SqliteMetaStore` (topics' blocks interleaved, as a broker would
write them) and is killed in the middle of it. What it left is opened twice: by a bare store, then by the real broker.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

from messaging.storage.block_header import BlockHeader
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.meta_seam import LedgerRecord, TopicRecord
from messaging.storage.meta_sqlite import SqliteMetaStore
from messaging.storage.seam import LedgerWriter, StoreError
from tests.benchmarks import load, wire
from tests.benchmarks.real_broker import RealBroker

COMMIT_BYTES = 4 << 20
TOPICS_AT_ONCE = 2000
PROPERTIES = {"tenant": "public"}
TOPIC = "persistent://public/default/restart-%d"


def run(directory: Path | str | None = None, topics: int = 2000, gib: float = 0.5, block_bytes: int = 1000) -> dict[str, Any]:
    """Seconds and bytes; see the names."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-restart-") as made:
        folder = Path(made) / "data"
        folder.mkdir()
        RealBroker(folder).close()  # secrets, and public/default in its feed
        started = time.perf_counter()
        arguments = ["fill", str(folder), str(topics), str(int(gib * (1 << 30))), str(block_bytes)]
        with subprocess.Popen([sys.executable, "-m", __spec__.name, *arguments], stdout=subprocess.PIPE, text=True) as filling:
            assert filling.stdout is not None
            said = filling.stdout.readline().strip()
            filling.kill()
        if said != "filled":
            sys.exit("the filling process ended early")
        result: dict[str, Any] = {"topics": topics, "gib": gib, "block_bytes": block_bytes, "fill_s": time.perf_counter() - started}
        opened = subprocess.run(
            [sys.executable, "-m", __spec__.name, "open", str(folder)], stdout=subprocess.PIPE, text=True, check=True
        )
        result |= json.loads(opened.stdout)
        result |= _first_publish(folder, topics // 2)
    return result


def _first_publish(folder: Path, number: int) -> dict[str, float]:
    topic = TOPIC % number
    started = time.perf_counter()
    broker = RealBroker(folder)
    try:
        peer, producer = load.publisher(broker.address, topic)
        peer.ask(bytes(wire.Stream(producer, 1, 128, 1).data), wire.SEND_RECEIPT)
        elapsed = time.perf_counter() - started
        peer.close()
        cost = broker.cost()
    finally:
        broker.close()
    return {"broker_ready_s": broker.start_s, "first_receipt_s": elapsed, "broker_resident_bytes": cost.resident_bytes}


# In the process that is killed


async def fill(folder: Path, topics: int, size: int, block_bytes: int) -> None:
    """Says "filled" when `size` bytes are stored, and goes on until it is killed."""
    store = LocalLedgerStore(folder / "broker" / "log", LocalConfig())
    fence = await store.start()
    meta = SqliteMetaStore(folder / "broker" / "meta.sqlite3")
    await meta.start()

    async def create(number: int) -> LedgerWriter:
        ledger_id = await meta.next_ledger_id()
        await meta.cas_topic(TopicRecord(TOPIC % number, created_ms=1, ledgers=(LedgerRecord(ledger_id, created_ms=1),)))
        return await store.create(fence, ledger_id, PROPERTIES)

    writers: list[LedgerWriter] = []
    for begin in range(0, topics, TOPICS_AT_ONCE):
        writers += await asyncio.gather(*map(create, range(begin, min(topics, begin + TOPICS_AT_ONCE))))
    await _append(writers, size, block_bytes)


async def _append(writers: list[LedgerWriter], size: int, block_bytes: int) -> None:
    loop = asyncio.get_running_loop()
    header = BlockHeader(1, 1, 0, 0, b"filler").encode()
    data, stops = os.urandom(block_bytes), array("I", [block_bytes])
    count = max(1, COMMIT_BYTES // block_bytes)
    turn = itertools.cycle(writers)
    written, told = 0, False
    pending: list[asyncio.Future[StoreError | None]] = []
    while True:
        for writer in itertools.islice(turn, count - 1):
            writer.append(header, data, stops, _raise)
        ended: asyncio.Future[StoreError | None] = loop.create_future()
        next(turn).append(header, data, stops, ended.set_result)
        pending.append(ended)
        if len(pending) > 1:
            _raise(await pending.pop(0))
        written += count * block_bytes
        if written >= size and not told:
            told = True
            sys.stdout.write("filled\n")
            sys.stdout.flush()


def _raise(error: StoreError | None) -> None:
    if error is not None:
        raise error


# In the process that opens the log alone


async def reopen(folder: Path) -> None:
    """Prints what it took, and is gone without a stop."""
    before = _resident_bytes()
    store = LocalLedgerStore(folder / "broker" / "log", LocalConfig())
    started = time.perf_counter()
    await store.start()
    elapsed = time.perf_counter() - started
    sys.stdout.write(json.dumps({"open_s": elapsed, "open_resident_bytes": _resident_bytes() - before}))
    sys.stdout.flush()
    os._exit(0)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    if sys.argv[1:2] == ["fill"]:
        asyncio.run(fill(Path(sys.argv[2]), *map(int, sys.argv[3:6])))
    elif sys.argv[1:2] == ["open"]:
        asyncio.run(reopen(Path(sys.argv[2])))
    else:
        parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.restart")
        parser.add_argument("--dir", type=Path)
        parser.add_argument("--topics", type=int, default=2000)
        parser.add_argument("--gib", type=float, default=0.5)
        parser.add_argument("--block-bytes", type=int, default=1000)
        options = parser.parse_args()
        sys.stdout.write(json.dumps(run(options.dir, options.topics, options.gib, options.block_bytes), indent=2) + "\n")


if __name__ == "__main__":
    main()
