"""Compaction of a topic with very many keys: its time, the memory of the worker, and what a producer of another topic notices."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.finding import BrokerChoice
from messaging.identity import service_token
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.settings import Settings
from tests.benchmarks import load, processes, wire
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from workers.compaction import compact_topic
from workers.environment import Environment

TOPIC = "persistent://public/default/compacted"
BESIDE = "persistent://public/default/beside"
BATCH = 1_000
VALUE = b"v" * 100
VERSIONS = 2  # of each key: the second half of the topic is what stays
QUIET_S = 5.0
PAUSE_S = 0.005
WORKER_MIB_MAX = 512.0


def run(directory: Path | None, keys: int, progress: Progress) -> Section:
    section = Section(
        f"Compaction of {keys:,} keys",
        f"{VERSIONS} messages of {len(VALUE)} B for each key, in batches of {BATCH:,}; the worker is a process of its own. "
        "Beside it a producer sends one message after another to another topic, and measures until its receipt.",
        [
            Table(("what", "seconds", "CPU s", "resident MiB"), []),
            Table(("receipts beside it", "p50 ms", "p99 ms"), []),
        ],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        folder = Path(made)
        broker = RealBroker(folder)
        try:
            progress(f"publishing {VERSIONS * keys:,} messages")
            _fill(broker, keys)
            beside = _Beside(broker)
            progress("receipts without a compaction")
            section.tables[1].rows.append(("without a compaction", *beside.measure(lambda: time.sleep(QUIET_S))))
            progress("compacting")
            answer: dict[str, float] = {}
            before = broker.cost()
            section.tables[1].rows.append(("while it runs", *beside.measure(lambda: answer.update(_compact(folder)))))
            after = broker.cost()
            mib = answer["resident_bytes"] / (1 << 20)
            rows = section.tables[0].rows
            rows.append(("the worker", number(answer["seconds"]), number(answer["cpu_s"]), number(mib)))
            spent = number(after.cpu_s - before.cpu_s), number(after.resident_bytes / (1 << 20))
            rows.append(("the broker, with the receipts beside it", "", *spent))
            section.figures.append(Figure("memory of the worker", mib, WORKER_MIB_MAX, "MiB", at_least=False))
        finally:
            broker.close()
    return section


def _fill(broker: RealBroker, keys: int) -> None:
    peer, name = load.publisher(broker.address, TOPIC)
    try:
        for sequence, first in enumerate(list(range(0, keys, BATCH)) * VERSIONS):
            peer.ask(_batch(name, sequence, range(first, min(first + BATCH, keys))), wire.SEND_RECEIPT)
    finally:
        peer.close()


def _batch(name: str, sequence: int, keys: range) -> bytes:
    pieces: list[bytes] = []
    for key in keys:
        head = pb.SingleMetadata(payload_size=len(VALUE), partition_key=f"key-{key}").SerializeToString()
        pieces += (len(head).to_bytes(4, "big"), head, VALUE)
    body = b"".join(pieces)
    metadata = pb.Metadata(
        producer_name=name,
        sequence_id=sequence,
        publish_time=int(time.time() * 1000),
        num_messages_in_batch=len(keys),
        uncompressed_size=len(body),
    )
    return build_send(1, sequence, metadata, body, len(keys))


class _Beside:
    """A producer of another topic."""

    def __init__(self, broker: RealBroker) -> None:
        self._peer, self._name = load.publisher(broker.address, BESIDE)
        self._sequence = 0

    def measure(self, work: Callable[[], None]) -> tuple[str, str]:
        """p50 and p99 of receipts while `work` runs in another thread."""
        running = threading.Thread(target=work)
        running.start()
        taken_ms: list[float] = []
        while running.is_alive():
            metadata = pb.Metadata(producer_name=self._name, sequence_id=self._sequence, publish_time=1)
            begun = time.perf_counter()
            self._peer.ask(build_send(1, self._sequence, metadata, VALUE), wire.SEND_RECEIPT)
            taken_ms.append((time.perf_counter() - begun) * 1000)
            self._sequence += 1
            time.sleep(PAUSE_S)
        running.join()
        taken_ms.sort()
        return number(taken_ms[len(taken_ms) // 2]), number(taken_ms[len(taken_ms) * 99 // 100])


def _compact(folder: Path) -> dict[str, float]:
    with (folder / "worker.output").open("wb") as output:
        worker = processes.start([sys.executable, "-m", "tests.benchmarks.compaction", str(folder)], output)
        try:
            worker.wait()
        finally:
            processes.end(worker)
    said = (folder / "worker.output").read_text()
    if worker.returncode:
        raise Stalled(f"the compaction failed: {said[-1000:]}")
    answer: dict[str, float] = json.loads(said.splitlines()[-1])
    return answer


def compact(folder: Path) -> None:
    """In the process of the worker."""
    settings = Settings(data_dir=str(folder))
    rpc = AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"), 60.0)
    begun = time.perf_counter()
    compact_topic(Environment(settings, rpc), TOPIC, "benchmark", lambda: None)
    seconds, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime, "resident_bytes": used.ru_maxrss * 1024}))


if __name__ == "__main__":
    compact(Path(sys.argv[1]))
