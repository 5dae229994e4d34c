"""The broker processes of the benchmark `delayed`: one publishes delayed messages, below the socket, and is killed; another starts
on what that one left and delivers those that are due.

Both report as lines of JSON. The broker is the product's own, with its stores, listeners and loops.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime import main
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.process import tune_gc, tune_malloc, tune_thread_switching
from messaging.identity import create_secrets
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import EARLIEST
from tests.benchmarks.delayed_delivery.delayed_consumer import Receiving
from tests.benchmarks.delayed_delivery.delayed_load import BLOCK, Publishing

TOPIC = "persistent://public/default/delayed"
DUE_TOGETHER = 100_000
FAR_MS, SPREAD_MS = 24 * 3_600_000, 48 * 3_600_000
TOGETHER_MS, SCATTERED_MS = FAR_MS - 3_600_000, FAR_MS - 1_800_000  # when those are due that are within one second
LEAD_MS_MIN, LEAD_MS_EACH = 4_000, 0.5  # enough to read ahead what is due
BUDGET_BYTES = 1 << 30


def tell(**figures: object) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def opened(folder: Path, stack: AsyncExitStack) -> Broker:
    settings = Settings(
        data_dir=str(folder),
        broker_port=0,
        ws_port=0,
        log_level="warning",
        memory_budget_bytes=BUDGET_BYTES,
        subscription_unacked_max=0,
        consumer_unacked_max=0,
    )
    create_secrets(settings)
    service = await main.start(settings, stack)
    tune_gc()
    tune_thread_switching()
    tune_malloc()
    changes = [
        FeedChange(version=1, kind="tenant", key="public", state={"admin_roles": []}),
        FeedChange(version=1, kind="namespace", key="public/default", state={"policies": {}, "grants": {}}),
    ]
    await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=changes))
    return service


class Turns:
    """The longest time that the event loop did not come round."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._at = time.perf_counter()
        asyncio.get_running_loop().call_later(0.001, self._tick)

    def _tick(self) -> None:
        now = time.perf_counter()
        self.longest_ms = max(self.longest_ms, (now - self._at - 0.001) * 1000)
        self._at = now
        asyncio.get_running_loop().call_later(0.001, self._tick)

    def taken(self) -> float:
        longest_ms, self.longest_ms = self.longest_ms, 0.0
        return longest_ms


async def fill(folder: Path, count: int, kind: str) -> None:
    async with AsyncExitStack() as stack:
        service = await opened(folder, stack)
        topic = await service.topics.get(parse_topic(TOPIC), create=True)
        await topic.writable()
        idle_mb, draw = resident_mb(), np.random.default_rng(1)
        delayed = kind == "delayed"
        publishing, start_ms = Publishing(topic, delayed=delayed), service.now_ms()
        due = min(DUE_TOGETHER, count // 10)
        in_each, together = due * BLOCK // (count // 2), range(count // 2, count // 2 + due)
        turns = Turns()
        began, cpu, longest = time.perf_counter(), time.process_time(), 0.0
        peak_mb = idle_mb
        for first in range(0, count, BLOCK):
            times = start_ms + FAR_MS + draw.integers(0, SPREAD_MS, BLOCK)
            if first < count // 2:
                some = draw.choice(BLOCK, in_each, replace=False)
                times[some] = start_ms + SCATTERED_MS + draw.integers(0, 1000, in_each)
            elif first in together:
                times[:] = start_ms + TOGETHER_MS + draw.integers(0, 1000, BLOCK)
            publishing.publish(times)
            await publishing.pause()
            if first % 1_000_000 == 0:
                peak_mb = max(peak_mb, resident_mb())
        await topic.publisher.wait_for_pending()
        cpu_s, took_s = time.process_time() - cpu, time.perf_counter() - began
        longest = turns.taken()
        if delayed:
            await asyncio.sleep(3)
        runs = topic.ledger.record.delayed_runs
        tell(
            idle_mb=idle_mb,
            resident_mb=resident_mb(),
            peak_mb=max(peak_mb, resident_mb()),
            seconds=took_s,
            cpu_us=cpu_s / count * 1e6,
            longest_ms=longest,
            start_ms=start_ms,
            runs=len(runs),
            index_bytes=sum(run.length_bytes for run in runs),
            indexed=sum(run.entries for run in runs),
            stored_bytes=topic.ledger.stored_bytes,
        )
        await asyncio.sleep(3600 if delayed else 0)  # it is killed


class Shifted:
    """The clock that delays go by, set ahead."""

    def __init__(self, service: Broker) -> None:
        self._clock = service.storage.safe_expiry_ms
        self._expiry = service.storage.expiry_clock
        self.ahead_ms = 0

    def safe_expiry_ms(self) -> int:
        assert self._expiry is not None
        return self._expiry.safe_expiry_ms() + self.ahead_ms


async def serve(folder: Path, count: int, start_ms: int) -> None:
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        service = await opened(folder, stack)
        open_s, log_mb = time.perf_counter() - began, resident_mb()
        clock = Shifted(service)
        service.storage.expiry_clock = clock  # type: ignore[assignment]
        turns = Turns()
        loading = time.perf_counter()
        topic = await service.topics.get(parse_topic(TOPIC), create=False)
        load_s = time.perf_counter() - loading
        subscription = await topic.subscriptions.create(f"s{time.time_ns()}", EARLIEST)
        end = Receiving(topic, subscription, clock.safe_expiry_ms)
        consumer = Consumer(1, "c", end)
        topic.consumers.attach(subscription, consumer, SubscriptionType.SHARED)
        topic.consumers.flow(subscription, consumer, 1_000_000)
        await topic.writable()
        now = Publishing(topic, delayed=False)
        now.publish(np.zeros(BLOCK, np.int64))
        await end.wait_for(1, 60.0)
        tell(
            open_s=open_s,
            load_s=load_s,
            first_s=time.perf_counter() - loading,
            log_mb=log_mb,
            resident_mb=resident_mb(),
            pending=subscription.delayed_entries,
            reads=service.topics.services.loops.backlog_scheduler.reads,
            longest_ms=turns.taken(),
        )
        wanted = min(DUE_TOGETHER, count // 10)
        lead_ms = max(LEAD_MS_MIN, int(wanted * LEAD_MS_EACH))
        for what, at_ms in (("together", TOGETHER_MS), ("scattered", SCATTERED_MS)):
            end.received, end.late_ms = 0, []
            clock.ahead_ms = start_ms + at_ms - lead_ms - service.storage.clock_ms()
            reads, cpu = service.topics.services.loops.backlog_scheduler.reads, time.process_time()
            service.topics.services.loops.delay_timers.check_clock(clock.safe_expiry_ms(), round(time.monotonic() * 1000))
            turns.taken()
            await end.wait_for(wanted, lead_ms / 1000 + 90)
            await asyncio.sleep(0.5)
            late = np.concatenate(end.late_ms) if end.late_ms else np.zeros(1, np.int64)
            tell(
                what=what,
                received=end.received,
                wanted=wanted,
                reads=service.topics.services.loops.backlog_scheduler.reads - reads,
                p50_ms=float(np.percentile(late, 50)),
                p99_ms=float(np.percentile(late, 99)),
                p999_ms=float(np.percentile(late, 99.9)),
                earliest_ms=int(late.min()),
                latest_ms=int(late.max()),
                longest_ms=turns.taken(),
                resident_mb=resident_mb(),
                cpu_s=time.process_time() - cpu,
            )
        os._exit(0)


def run(arguments: list[str]) -> None:
    what, folder, count, last = arguments
    work: Any = fill(Path(folder), int(count), last) if what == "fill" else serve(Path(folder), int(count), int(last))
    asyncio.run(work)


if __name__ == "__main__":
    run(sys.argv[1:])
