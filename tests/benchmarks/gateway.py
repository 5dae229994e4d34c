"""`magnetar bench gateway`: what the ways in cost, beside each other: the broker's own port, its WebSocket port, and the web port.

One client process drives a whole platform over each of them in turn, several times: first one message after another, each waiting
for its receipt; then batches as fast as receipts come. The median of the turns counts.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from messaging import client as magnetar
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import cost
from tests.benchmarks.report import Figure, Progress, Section, Table, number
from tests.support.brokers.standalone import Standalone

TURNS = 3
PAYLOAD = bytes(1024)
AHEAD = 400  # messages that are sent while the same number waits for receipts
LATENCY_X_MAX, THROUGHPUT_X_MIN = 2.0, 0.8


class Turn(NamedTuple):
    p50_ms: float
    p99_ms: float
    rate: float  # messages a second
    client_us: float  # CPU, of a message in a batch; the same for what follows
    broker_us: float
    web_us: float


def run(directory: Path | None, scale: float, progress: Progress) -> Section:
    """Raises `Stalled` if the platform does not answer."""
    section = Section(
        "The SDK over each of the ways in",
        f"Messages of {len(PAYLOAD)} bytes by one producer on one topic; {TURNS} turns, medians. CPU is of a message in batches.",
        [Table(("way in", "p50 ms", "p99 ms", "messages/s", "client us", "broker us", "web us"), [])],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        platform = Standalone(Path(made, "data"))
        try:
            platform.start()
            ways = {
                "TCP": platform.ready["broker_url"],
                "WebSocket": platform.ready["ws_url"],
                "WebSocket on the web port": platform.ready["web_url"].replace("http", "ws", 1),
            }
            turns: dict[str, list[Turn]] = {way: [] for way in ways}
            for turn in range(TURNS + 1):
                for way, url in ways.items():
                    progress(f"{way}, {'to warm up' if not turn else f'turn {turn}'}")
                    measured = asyncio.run(_turn(platform, url, scale))
                    turns[way] += [measured] if turn else []
        except (OSError, AssertionError, magnetar.errors.MagnetarError) as error:
            raise Stalled(f"the platform does not answer: {error}") from None
        finally:
            platform.close()
    middles = {way: Turn(*map(median, zip(*of_way, strict=True))) for way, of_way in turns.items()}
    section.tables[0].rows.extend((way, *map(number, middle)) for way, middle in middles.items())
    direct, passed_on = middles["WebSocket"], middles["WebSocket on the web port"]
    section.figures += [
        Figure(
            "latency over the web port / over the WebSocket port", passed_on.p50_ms / direct.p50_ms, LATENCY_X_MAX, at_least=False
        ),
        Figure("throughput over the web port / over the WebSocket port", passed_on.rate / direct.rate, THROUGHPUT_X_MIN),
    ]
    return section


async def _turn(platform: Standalone, url: str, scale: float) -> Turn:
    pids = {child["name"]: child["pid"] for child in platform.state()["children"]}

    def cpu_of(name: str) -> Callable[[], float]:
        return lambda: cost(pids[name]).cpu_s

    meters = (time.process_time, cpu_of("broker"), cpu_of("web"))
    one_by_one, in_batches = max(20, int(500 * scale)), max(500, int(50_000 * scale))
    async with magnetar.connect(url, key=platform.admin_token, open_timeout_s=60) as client:
        topic = "persistent://public/default/gateway"
        producer = await client.create_producer(topic, batching=False, send_timeout_s=0)
        times_ms = []
        for _ in range(one_by_one):
            start = time.perf_counter()
            await producer.send(PAYLOAD)
            times_ms.append((time.perf_counter() - start) * 1e3)
        await producer.close()
        producer = await client.create_producer(topic, send_timeout_s=0)
        before, start = [meter() for meter in meters], time.perf_counter()
        last: asyncio.Future[magnetar.MessageId] | None = None
        for begin in range(0, in_batches, AHEAD):
            sent = [producer.send_nowait(PAYLOAD) for _ in range(min(AHEAD, in_batches - begin))]
            if last is not None:
                await last
            last = sent[-1]
        await producer.flush()
        seconds = time.perf_counter() - start
        spent_us = [(meter() - began) * 1e6 / in_batches for meter, began in zip(meters, before, strict=True)]
        await producer.close()
    times_ms.sort()
    return Turn(median(times_ms), times_ms[round(len(times_ms) * 0.99) - 1], in_batches / seconds, *spent_us)
