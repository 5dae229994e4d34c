"""Many topics divided among brokers: what they take, and what happens when one of the brokers is killed and started again.

Part of `magnetar bench fleet`. A producer on each topic looks it up again as a stock client does (`crowd.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median

from tests.benchmarks.crowd import Crowd
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

START_S_MAX = 2.5
LOOKUPS_A_PRODUCER_MAX = 5.0  # of those whose broker went away
OPENED_AT_ONCE = 2_000
PATIENCE_MS = 10  # for each topic
COLUMNS = (
    "topics",
    "brokers",
    "opened/s in sum",
    "resident MiB of each, before",
    "with a producer and a message on each",
    "KiB a topic",
)
RESTART_COLUMNS = (
    "one killed and started again",
    "started in, s",
    "resident MiB then",
    "producers that lost it",
    "look-ups/s of each broker, at most",
    "look-ups in all",
    "served again after, s: half, all",
)


def run(
    section: Section,
    brokers: list[RealBroker],
    count: int,
    start_again: Callable[[RealBroker], RealBroker],
    progress: Progress,
    where: str,
) -> None:
    """`start_again`: starts a broker in the place of one that was killed; called in another thread. Raises `Stalled`."""
    patience_s = 60 + count * PATIENCE_MS / 1000
    topics = [f"persistent://public/default/many-{each}" for each in range(count)]
    before = [_mib(broker) for broker in brokers]
    crowd = Crowd(topics, lambda: [broker.address for broker in brokers], OPENED_AT_ONCE)
    try:
        progress(f"{where}: a producer on each of {count:,} topics")
        begun = time.monotonic()
        crowd.run(patience_s)
        opened_s = time.monotonic() - begun
        progress(f"{where}: a message on each, opened in {opened_s:.1f} s")
        crowd.publish(patience_s)
        after = [_mib(broker) for broker in brokers]
        kib = (sum(after) - sum(before)) * 1024 / count
        sizes = (" ".join(number(each) for each in figures) for figures in (before, after))
        cells = (f"{count:,}", f"{len(brokers)}, {where}", number(count / opened_s), *sizes, number(kib))
        section.tables.append(Table(COLUMNS, [cells]))
        _restarted(section, brokers, crowd, start_again, progress, where, patience_s)
    finally:
        crowd.close()


def _restarted(
    section: Section,
    brokers: list[RealBroker],
    crowd: Crowd,
    start_again: Callable[[RealBroker], RealBroker],
    progress: Progress,
    where: str,
    patience_s: float,
) -> None:
    progress(f"{where}: one is killed and started again")
    killed = brokers.pop()
    crowd.looked_up.clear()
    crowd.unbounded()  # a client does not know of others
    killed.kill()
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        starting: Future[RealBroker] = threads.submit(start_again, killed)
        try:
            crowd.run(patience_s, until=starting.done)
        finally:
            brokers.append(starting.result())
    back = sorted(at - begun for at in crowd.served_at.values() if at > begun)
    if not back:
        raise Stalled("no producer lost the broker that was killed")
    highest = max(_in_a_second(tenths) for tenths in crowd.looked_up.values())
    in_all = sum(tenths.total() for tenths in crowd.looked_up.values())
    started = brokers[-1]
    cells = (number(started.start_s), number(_mib(started)), f"{len(back):,}", number(highest), f"{in_all:,}")
    section.tables.append(Table(RESTART_COLUMNS, [(where, *cells, f"{median(back):.2f}, {back[-1]:.2f}")]))
    section.figures += [
        Figure(f"{where}: start of a broker with {len(back):,} topics", started.start_s, START_S_MAX, "s", at_least=False),
        Figure(
            f"{where}: look-ups of a producer whose broker went away",
            in_all / len(back),
            LOOKUPS_A_PRODUCER_MAX,
            "",
            at_least=False,
        ),
    ]


def _in_a_second(tenths: dict[int, int]) -> int:
    return max(sum(tenths.get(first + each, 0) for each in range(10)) for first in tenths)


def _mib(broker: RealBroker) -> float:
    return broker.cost().resident_bytes / 2**20
