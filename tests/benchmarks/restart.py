"""Restart after `kill -9`: how long until the log is open, what the open store holds, and when the first publish is accepted.

A process fills a data directory through `LocalLedgerStore` and `SqliteMetaStore` (topics' blocks interleaved, as a broker would
write them) and is killed in the middle of it. What it left is opened twice: by a bare store, then by the real broker.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from messaging.storage.block_header import BlockHeader
from messaging.storage.ledger_store import LedgerWriter, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.managed.owned_range import take_over
from messaging.storage.meta_store import LedgerRecord, TopicRecord
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from tests.benchmarks import load, processes, wire
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

TARGET_S = 3.0
GIB = 20
FILLED = "filled"
COMMIT_BYTES = 4 << 20
TOPICS_AT_ONCE = 2000
PROPERTIES = {"tenant": "public"}
TOPIC = "persistent://public/default/restart-%d"


def run(directory: Path | None, count: int, gib: float, progress: Progress, block_bytes: int = 1000) -> Section:
    section = Section(
        "Restart after kill -9",
        f"{count:,} topics whose blocks of {block_bytes:,} B lie interleaved in {gib:g} GiB. The process that wrote them was "
        "killed while it went on. The log alone is opened in a process of its own, which ends at once; then the real broker is "
        "started, and a producer publishes to one of the topics.",
        [Table(("what", "seconds", "resident MiB"), [])],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        folder = Path(made)
        RealBroker(folder).close()  # secrets, and public/default in its feed
        progress(f"restart: {gib:g} GiB of {count:,} topics")
        took_s = _fill(folder, count, int(gib * (1 << 30)), block_bytes)
        section.tables[0].rows.append(("filling", number(took_s), ""))
        progress("restart: the log alone")
        alone = _open_alone(folder)
        section.tables[0].rows.append(("the log alone", number(alone["open_s"]), number(alone["resident_bytes"] / (1 << 20))))
        progress("restart: the broker")
        _first_receipt(folder, count // 2, section)
    return section


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.restart", *map(str, arguments)]


def _fill(folder: Path, count: int, size: int, block_bytes: int) -> float:
    started = time.perf_counter()
    with (folder / "filling.output").open("wb") as output:
        filling = processes.start(_command("fill", folder, count, size, block_bytes), output)
        try:
            while not (folder / FILLED).exists():
                if filling.poll() is not None:
                    raise Stalled(f"filling ended early: {(folder / 'filling.output').read_text()[-1000:]}")
                time.sleep(0.05)
        finally:
            processes.end(filling)  # this is the kill
    return time.perf_counter() - started


def _open_alone(folder: Path) -> dict[str, float]:
    with (folder / "opening.output").open("wb") as output:
        opening = processes.start(_command("open", folder), output)
        try:
            opening.wait()
        finally:
            processes.end(opening)
    said = (folder / "opening.output").read_text().splitlines()  # first what the log says of a torn tail, if the kill left one
    answer: dict[str, float] = json.loads(said[-1])
    return answer


def _first_receipt(folder: Path, topic: int, section: Section) -> None:
    started = time.perf_counter()
    broker = RealBroker(folder)
    try:
        peer, producer = load.publisher(broker.address, TOPIC % topic)
        peer.ask(bytes(wire.Stream(producer, 1, 128, 1).data), wire.SEND_RECEIPT)
        elapsed_s = time.perf_counter() - started
        peer.close()
        resident = number(broker.cost().resident_bytes / (1 << 20))
    finally:
        broker.close()
    rows = section.tables[0].rows
    rows.append(("the broker, until it takes traffic", number(broker.start_s), ""))
    rows.append(("... first receipt", number(elapsed_s), resident))
    section.figures.append(Figure("first publish accepted after a kill -9", elapsed_s, TARGET_S, "s", at_least=False))


# In the process that is killed


async def fill(folder: Path, count: int, size: int, block_bytes: int) -> None:
    """Makes the file `FILLED` when `size` bytes are stored, and goes on until it is killed."""
    store = LocalLedgerStore(folder / "broker" / "log", LocalConfig())
    await store.start()
    meta = SqliteMetaStore(folder / "broker" / "meta.sqlite3")
    await meta.start()
    fence = (await take_over(store, meta)).fence

    async def create(number: int) -> LedgerWriter:
        ledger_id = await meta.next_ledger_id(fence)
        await meta.cas_topic(fence, TopicRecord(TOPIC % number, created_ms=1, ledgers=(LedgerRecord(ledger_id, created_ms=1),)))
        return await store.create(fence, ledger_id, PROPERTIES)

    writers: list[LedgerWriter] = []
    for begin in range(0, count, TOPICS_AT_ONCE):
        writers += await asyncio.gather(*map(create, range(begin, min(count, begin + TOPICS_AT_ONCE))))
    await _append(writers, size, block_bytes, (folder / FILLED).touch)


async def _append(writers: list[LedgerWriter], size: int, block_bytes: int, filled: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    header = BlockHeader(1, 1, 0, 0, b"filler").encode()
    data, end_offsets = os.urandom(block_bytes), array("I", [block_bytes])
    count = max(1, COMMIT_BYTES // block_bytes)
    turn = itertools.cycle(writers)
    written, told = 0, False
    pending: list[asyncio.Future[StoreError | None]] = []
    while True:
        for writer in itertools.islice(turn, count - 1):
            writer.append(header, data, end_offsets, _raise)
        ended: asyncio.Future[StoreError | None] = loop.create_future()
        next(turn).append(header, data, end_offsets, ended.set_result)
        pending.append(ended)
        if len(pending) > 1:
            _raise(await pending.pop(0))
        written += count * block_bytes
        if written >= size and not told:
            told = True
            filled()


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
    sys.stdout.write(json.dumps({"open_s": elapsed, "resident_bytes": _resident_bytes() - before}))
    sys.stdout.flush()
    os._exit(0)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        asyncio.run(fill(Path(sys.argv[2]), *map(int, sys.argv[3:])))
    else:
        asyncio.run(reopen(Path(sys.argv[2])))
