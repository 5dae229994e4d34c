"""A cold reader from the beginning of a long topic, while producers run at 40 % of what they can.

`run()` fills a topic, measures how fast that goes, then publishes at a steady rate alone, beside a reader of another topic, alone
again, and beside a reader of the very topic that is published to. The reader is a process of its own, so that it does not delay the
taking of the publisher's times; what it reads is neither in the broker's memory nor, after `_let_go`, in the kernel's.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import struct
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import command
from tests.benchmarks import bare_disk, load, wire
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

SHARE_OF_MAXIMUM = 0.4
PATIENCE_S = 60.0  # with the reader: it reads from a disk that others use
PERMITS = 10_000  # messages asked for at a time, renewed by halves
_ROUND_BYTES = 64 << 20  # of frames made before the clock starts, sent again and again
_READ_BYTES = 1 << 20

_LENGTH = struct.Struct(">I")


class Variant(NamedTuple):
    name: str
    size: int
    batch: int
    window: int


class Case(NamedTuple):
    """Rates in messages/s; latencies of receipts."""

    publish_per_s: float
    catch_up_per_s: float
    p50_ms: float
    p99_ms: float
    broker_cores: float
    generator_cores: float
    resident_mib: float


COLUMNS = (
    "messages",
    "beside",
    "published/s",
    "read/s",
    "receipt p50 / p99 ms",
    "broker cores",
    "cores of generator and reader",
    "resident MiB",
)
VARIANTS = (Variant("1 KiB", 1024, 1, 1000), Variant("1 KiB x 100 a batch", 1024, 100, 50))


def run(directory: Path | None, gib: float, seconds: float, progress: Progress) -> Section:
    """`gib`: stored before the clock starts, for each kind of messages; `seconds`: of each measurement."""
    section = Section(
        "Catching up beside producers",
        f"{gib:g} GiB lie cold on the disk: neither in the broker's memory nor in the kernel's. Producers run at "
        f"{SHARE_OF_MAXIMUM:.0%} of what was measured while these were stored, {seconds:g} s alone, beside an Exclusive reader of "
        f"another topic, alone, and beside a reader of their own topic from its beginning. The reader asks for {PERMITS:,} "
        "messages at a time, as fast as it gets them. Of the bare disk: the same bytes at the same rates, written durably and read "
        "with no broker between.",
        [Table(COLUMNS, [])],
    )
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
            broker = RealBroker(Path(made), retention_time_min=-1)
            try:
                _one_variant(broker, Path(made), variant, gib, seconds, section, progress)
            finally:
                broker.close()
    return section


def _one_variant(
    broker: RealBroker, folder: Path, variant: Variant, gib: float, seconds: float, section: Section, progress: Progress
) -> None:
    progress(f"catching up: storing {variant.name}")
    long, other = (f"persistent://public/default/{name}" for name in ("long", "other"))
    per_round = max(1, _ROUND_BYTES // (variant.size * variant.batch))
    rounds = max(1, round(gib * 2**30 / _ROUND_BYTES))
    peer, name = load.publisher(broker.address, long)
    stream = wire.Stream(name, per_round, variant.size, variant.batch)
    rates = sorted(load.Run(peer, stream, variant.window).run().messages_per_s for _ in range(rounds))
    peer.close()
    stored = rounds * per_round * variant.batch
    rate = SHARE_OF_MAXIMUM * rates[len(rates) // 2] / variant.batch
    cases = (
        ("alone", other, ""),
        ("another topic's reader", other, long),
        ("alone again", other, ""),
        ("its own reader", long, long),
    )
    results: dict[str, Case] = {}
    for case, topic, read in cases:
        progress(f"catching up: {variant.name}, {case}")
        _let_go(folder)
        results[case] = result = _case(broker, folder, variant, topic, read, stored, rate, seconds)
        cells = (
            number(result.publish_per_s),
            number(result.catch_up_per_s) if read else "",
            f"{result.p50_ms:.2f} / {result.p99_ms:.2f}",
        )
        costs = (number(result.broker_cores), number(result.generator_cores), number(result.resident_mib))
        section.tables[0].rows.append((variant.name, case, *cells, *costs))
    _bare_disk(folder, variant, results, seconds, section, progress)
    alone_ms = (results["alone"].p99_ms + results["alone again"].p99_ms) / 2
    for case, _, read in cases:
        if read:
            result = results[case]
            what = f"{variant.name}, {case}"
            section.figures.append(
                Figure(f"{what}: catch-up rate to publish rate", result.catch_up_per_s / result.publish_per_s, 1.5)
            )
            section.figures.append(Figure(f"{what}: publish p99 to p99 alone", result.p99_ms / alone_ms, 1.5, at_least=False))


def _bare_disk(
    folder: Path, variant: Variant, results: dict[str, Case], seconds: float, section: Section, progress: Progress
) -> None:
    """What is left of a receipt's time when nothing is done but writing and reading."""
    beside = results["another topic's reader"]
    for name, read_per_s in (("the bare disk, alone", 0.0), ("the bare disk, beside reading", beside.catch_up_per_s)):
        progress(f"catching up: {variant.name}, {name}")
        segments = folder / "broker" / "log"
        took = bare_disk.receipts(folder, segments, beside.publish_per_s * variant.size, read_per_s * variant.size, seconds)
        rates = (number(beside.publish_per_s), number(read_per_s) if read_per_s else "")
        section.tables[0].rows.append((variant.name, name, *rates, f"{took.p50_ms:.2f} / {took.p99_ms:.2f}", "", "", ""))


def _case(
    broker: RealBroker, folder: Path, variant: Variant, topic: str, read: str, stored: int, rate: float, seconds: float
) -> Case:
    """Publishes to `topic` for about `seconds`; `read`: the topic that a reader begins meanwhile, empty for none."""
    peer, name = load.publisher(broker.address, topic)
    stream = wire.Stream(name, max(100, int(rate * min(seconds, 1.0))), variant.size, variant.batch)
    ours, theirs = multiprocessing.Pipe()
    reader = multiprocessing.get_context("spawn").Process(
        target=_read, args=(theirs, broker.address, folder, read, variant.batch, stored), daemon=True
    )
    if read:
        reader.start()
        heard(ours, reader)  # its first message is there
    before = broker.cost()
    if read:
        ours.send("count")
    started = time.perf_counter()
    receipt_ms: list[float] = []
    messages, generator_cpu_s = 0, 0.0
    while time.perf_counter() - started < seconds:
        result = load.Run(peer, stream, variant.window * 4, rate).run(warm_up=0.1)
        receipt_ms += result.receipt_ms
        messages += result.messages
        generator_cpu_s += result.generator_cpu_s
    elapsed_s = time.perf_counter() - started
    delivered, reader_cpu_s = 0, 0.0
    if read:
        ours.send("end")
        delivered, reader_cpu_s = heard(ours, reader)
        reader.join()
    after = broker.cost()
    peer.close()
    receipt_ms.sort()
    return Case(
        publish_per_s=messages / elapsed_s,
        catch_up_per_s=delivered / elapsed_s,
        p50_ms=receipt_ms[len(receipt_ms) // 2],
        p99_ms=receipt_ms[int(0.99 * (len(receipt_ms) - 1))],
        broker_cores=(after.cpu_s - before.cpu_s) / elapsed_s,
        generator_cores=(generator_cpu_s + reader_cpu_s) / elapsed_s,
        resident_mib=after.resident_bytes / 2**20,
    )


def heard(told: multiprocessing.connection.Connection, reader: BaseProcess) -> Any:
    """What the reader's process says next. Raises `Stalled` where it ended, or says nothing for too long."""
    until = time.monotonic() + PATIENCE_S
    while not told.poll(0.2):
        if not reader.is_alive() and not told.poll():
            raise load.Stalled(f"the reader's process ended with {reader.exitcode} before it was done")
        if time.monotonic() > until:
            raise load.Stalled(f"the reader got nothing for {PATIENCE_S:g} s")
    return told.recv()


def _read(
    told: multiprocessing.connection.Connection, address: tuple[str, int], folder: Path, topic: str, batch: int, stored: int
) -> None:
    """The reader's process: says when its first message is there, counts from "count" to "end", begins anew at the topic's end."""
    reader = Reader(address, topic, batch)
    reader.take()
    told.send("begun")
    counted = 0
    counting, cpu_s = False, 0.0
    while True:
        if told.poll():
            if told.recv() == "end":
                told.send((counted, time.process_time() - cpu_s))
                reader.peer.close()
                return
            counting, cpu_s = True, time.process_time()
        taken = reader.take()
        counted += taken if counting else 0
        if reader.messages >= stored:
            reader.peer.close()
            _let_go(folder)
            reader = Reader(address, topic, batch)


class Reader:
    """An Exclusive reader from the beginning, of entries of `batch` messages."""

    def __init__(self, address: tuple[str, int], topic: str, batch: int) -> None:
        self.peer = load.Peer(address, topic)
        self.peer.ask(wire.lookup(topic), 24)
        request = pb.Subscribe(
            topic=topic,
            subscription="reader",
            sub_type=pb.Subscribe.Exclusive,
            consumer_id=1,
            request_id=3,
            durable=False,
            initial_position=pb.Subscribe.Earliest,
        )
        self.peer.ask(command(pb.Command.SUBSCRIBE, subscribe=request), wire.SUCCESS)
        self.peer.socket.sendall(wire.flow(PERMITS))
        self.messages = 0
        self._batch = batch
        self._granted = 0
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._kept = 0  # bytes at the front of the buffer: a length of which only a part has come
        self._skip = 0  # bytes to come of a frame that was counted

    def take(self) -> int:
        """Reads once; returns the messages that began to come. Looks at the lengths of frames only: what the reader takes of the
        machine, the broker and the publisher lack."""
        size = self._kept + self.peer.socket.recv_into(self._buffer[self._kept :])
        if size == self._kept:
            raise load.Stalled("the broker closed the reader's connection")
        entries, position = 0, self._skip
        while position + 4 <= size:
            position += 4 + _LENGTH.unpack_from(self._buffer, position)[0]
            entries += 1
        self._kept, self._skip = max(0, size - position), max(0, position - size)
        self._buffer[: self._kept] = bytes(self._buffer[position : position + self._kept])
        messages = entries * self._batch
        self.messages += messages
        if self.messages - self._granted >= PERMITS // 2:
            self.peer.socket.sendall(wire.flow(self.messages - self._granted))
            self._granted = self.messages
        return messages


def _let_go(folder: Path) -> None:
    """Makes the stored entries cold: the kernel forgets the pages of every segment."""
    for path in (folder / "broker" / "log").iterdir():
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
