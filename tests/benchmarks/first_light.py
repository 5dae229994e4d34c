"""The first benchmark: durable publish and end-to-end, through the real broker process, beside the floors of the same minute."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import floors, load, wire
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Progress, Section, Table, floors_section

PERMITS = 1000


class Case(NamedTuple):
    """One kind of load. `entries` at scale 1; `rate_per_s` 0 is as fast as the window allows."""

    name: str
    entries: int
    size: int
    batch: int
    window: int
    rate_per_s: float = 0.0
    consume: bool = False


CASES = (
    Case("128 B, one in flight", 3_000, 128, 1, 1),
    Case("128 B, 1,000 in flight", 200_000, 128, 1, 1000),
    Case("1 KiB, 1,000 in flight", 80_000, 1024, 1, 1000),
    Case("1 KiB x 100 a batch, 50 in flight", 6_000, 1024, 100, 50),
    Case("128 B, 16 in flight", 40_000, 128, 1, 16),
    Case("1 KiB at 5,000/s", 20_000, 1024, 1, 1000, 5_000),
    Case("1 KiB at 10,000/s", 40_000, 1024, 1, 1000, 10_000),
    Case("128 B end to end, individual acks", 80_000, 128, 1, 1000, consume=True),
    Case("1 KiB end to end at 5,000/s, individual acks", 20_000, 1024, 1, 1000, 5_000, consume=True),
    Case("1 KiB end to end at 10,000/s, individual acks", 40_000, 1024, 1, 1000, 10_000, consume=True),
)


def run(directory: Path | None, scale: float, progress: Progress) -> Iterator[Section]:
    """`directory`: where the broker's data go (its disk is what is measured). `scale`: share of the messages to send."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        folder = Path(made)
        progress("floors of this machine")
        measured = floors.measure(folder)
        yield floors_section(measured)
        broker = RealBroker(folder)
        try:
            cases = [_case(broker, case, number, scale, measured) for number, case in _announced(CASES, progress)]
            idle = broker.cost()
        finally:
            broker.close()
    words = (
        f"The broker takes traffic {broker.start_s:.2f} s after its start and holds {idle.resident_bytes / 2**20:.0f} MiB after "
        "all of this. Load of our own generator, in Python, in one process beside it."
    )
    yield Section("Durable publish and delivery", words, [_table(cases)])


def _announced(cases: tuple[Case, ...], progress: Progress) -> Iterator[tuple[int, Case]]:
    for number, case in enumerate(cases):
        progress(case.name)
        yield number, case


def _case(broker: RealBroker, case: Case, number: int, scale: float, measured: dict[str, float]) -> dict[str, Any]:
    topic = f"persistent://public/default/bench-{number}"
    peer, name = load.publisher(broker.address, topic)
    stream = wire.Stream(name, max(50, int(case.entries * scale)), case.size, case.batch)
    permits = PERMITS * case.batch
    consumer = load.subscriber(broker.address, topic, permits) if case.consume else None
    before = broker.cost()
    result = load.Run(peer, stream, case.window, case.rate_per_s, consumer, permits).run()
    after = broker.cost()
    peer.close()
    if consumer is not None:
        consumer.close()
    mib_per_s = result.messages * case.size / 2**20 / result.elapsed_s
    answer: dict[str, Any] = {
        "case": case.name,
        "messages": result.messages,
        "messages_per_s": round(result.messages_per_s),
        "mib_per_s": round(mib_per_s, 2),
        "receipt_p50_ms": round(_quantile(result.receipt_ms, 0.5), 3),
        "receipt_p99_ms": round(_quantile(result.receipt_ms, 0.99), 3),
        "broker_cpu_us": round((after.cpu_s - before.cpu_s) / result.messages * 1e6, 2),
        "broker_cores": round((after.cpu_s - before.cpu_s) / result.elapsed_s, 2),
        "generator_cores": round(result.generator_cpu_s / result.elapsed_s, 2),
        "resident_mib": round(after.resident_bytes / 2**20, 1),
        "ratio_to_sequential_floor": round(mib_per_s / measured["durable_sequential_mib_per_s"], 4),
    }
    if case.window == 1:
        floor_ms = measured["sync_4kib_p50_ms"] + measured["loopback_ping_pong_p50_ms"]
        answer["receipt_p50_ratio_to_floor"] = round(answer["receipt_p50_ms"] / floor_ms, 2)
    if result.delivery_ms:
        answer["delivery_p50_ms"] = round(_quantile(result.delivery_ms, 0.5), 3)
        answer["delivery_p99_ms"] = round(_quantile(result.delivery_ms, 0.99), 3)
    return answer


def _table(cases: list[dict[str, Any]]) -> Table:
    columns = (
        "load",
        "messages/s",
        "MiB/s",
        "of the sequential floor",
        "receipt p50 / p99 ms",
        "delivery p50 / p99 ms",
        "broker CPU us a message",
        "broker cores",
        "generator cores",
        "resident MiB",
    )
    rows: list[tuple[str, ...]] = []
    for case in cases:
        delivery = f"{case['delivery_p50_ms']} / {case['delivery_p99_ms']}" if "delivery_p50_ms" in case else ""
        ratio = case.get("receipt_p50_ratio_to_floor")
        floor = f" ({ratio} x sync + ping-pong)" if ratio else ""
        rows.append(
            (
                case["case"],
                f"{case['messages_per_s']:,}",
                str(case["mib_per_s"]),
                f"{case['ratio_to_sequential_floor']:.1%}",
                f"{case['receipt_p50_ms']} / {case['receipt_p99_ms']}{floor}",
                delivery,
                str(case["broker_cpu_us"]),
                str(case["broker_cores"]),
                str(case["generator_cores"]),
                str(case["resident_mib"]),
            )
        )
    return Table(columns, rows)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))]
