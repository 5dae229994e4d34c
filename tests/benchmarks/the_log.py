"""The parts of pages such as that on the log: floors, then one benchmark after the other, each in a fresh data directory.

A benchmark that fails is named on the page and the others go on. To add one: a function that takes an `Order` and gives a
`Section`, a line in `PARTS`, and its name among those of a page in `PAGES`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import (
    acks,
    billing,
    catch_up,
    compaction,
    fleet,
    floors,
    gateway,
    listing,
    log_append,
    on_postgresql,
    processes,
    rate_limits,
    restart,
    topics,
)
from tests.benchmarks.beside_peer import delayed_peer, dispatch, on_bookies, opening, peer
from tests.benchmarks.delayed_delivery import delayed
from tests.benchmarks.generator import Generator
from tests.benchmarks.hostile import neighbours, shared_slots
from tests.benchmarks.lists import lists
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Interrupted
from tests.benchmarks.producing import producer
from tests.benchmarks.report import Progress, Section, floors_section


class Order(NamedTuple):
    """What was asked for. `directory`: whose disk is measured (None: the temporary folder's). `generator` and `peer` are programs
    that are not part of the repository; without them the parts that need them cannot run. `scale`: of times and counts; 1 is real.
    """

    directory: Path | None
    generator: Generator | None
    peer: Path | None
    progress: Progress
    scale: float = 1.0
    topics: int = 100_000
    profile: bool = False
    postgresql: str = ""


def _append(order: Order) -> Section:
    return log_append.run(order.directory, 3.0 * order.scale, order.progress)


def _peer(order: Order) -> Section:
    assert order.generator is not None and order.peer is not None
    plan = peer.Plan(4.0 * order.scale, 6 if order.scale >= 0.5 else 1, 25.0 * order.scale, profile=order.profile)
    return peer.run(order.directory, order.generator, order.peer, plan, order.progress)


def _acks(order: Order) -> Section:
    return acks.run(order.directory, int(300_000 * order.scale), order.progress)


def _topics(order: Order) -> Section:
    assert order.generator is not None
    return topics.run(order.directory, order.generator, order.topics, 8.0 * order.scale, order.progress)


def _restart(order: Order) -> Section:
    return restart.run(order.directory, int(order.topics * min(1.0, order.scale)), restart.GIB * order.scale, order.progress)


def _neighbours(order: Order) -> Section:
    return neighbours.run(order.directory, 6.0 * order.scale, order.progress)


def _catch_up(order: Order) -> Section:
    return catch_up.run(order.directory, 2.0 * order.scale, 8.0 * order.scale, order.progress)


def _dispatch(order: Order) -> Section:
    assert order.peer is not None
    short = order.scale < 0.5
    plan = dispatch.Plan(
        seconds=2.0 if short else 3.0 * order.scale,
        rounds=2 if short else 4,
        warm_up_s=30.0 * max(0.3, order.scale),
        profile=order.profile,
    )
    return dispatch.run(order.directory, order.peer, plan, order.progress)


def _opening(order: Order) -> Section:
    assert order.peer is not None
    return opening.run(order.directory, order.peer, int(5_000 * order.scale), order.progress)


def _listing(order: Order) -> Section:
    return listing.run(order.directory, int(order.topics * min(1.0, order.scale)), max(5, int(60 * order.scale)), order.progress)


def _lists(order: Order) -> Section:
    return lists.run(order.directory, int(lists.ROWS_MAX * order.scale), max(2, int(5 * order.scale)), order.progress)


def _rates(order: Order) -> Section:
    return rate_limits.run(order.directory, 10.0 * order.scale, order.progress)


def _compaction(order: Order) -> Section:
    return compaction.run(order.directory, int(10_000_000 * order.scale), order.progress)


def _billing(order: Order) -> Section:
    return billing.run(order.directory, [int(size * order.scale) for size in billing.SIZES], order.progress)


def _gateway(order: Order) -> Section:
    return gateway.run(order.directory, order.scale, order.progress)


def _postgresql(order: Order) -> Section:
    return on_postgresql.run(order.directory, order.postgresql, order.scale, order.progress)


def _producer(order: Order) -> Section:
    return producer.run(order.directory, 6.0 * order.scale, order.progress)


def _delayed(order: Order) -> Section:
    return delayed.run(order.directory, tuple(int(count * order.scale) for count in delayed.COUNTS), order.progress)


def _delayed_peer(order: Order) -> Section:
    assert order.peer is not None
    return delayed_peer.run(order.directory, order.peer, int(delayed_peer.COUNT * order.scale), order.progress)


def _bookies(order: Order) -> Section:
    assert order.generator is not None and order.peer is not None
    plan = on_bookies.Plan(4.0 * order.scale, 5 if order.scale >= 0.5 else 2, 40.0 * order.scale)
    return on_bookies.run(order.directory, order.generator, order.peer, plan, order.progress)


def _fleet(order: Order) -> Section:
    assert order.generator is not None
    topics = max(1_000, int(order.topics * min(1.0, order.scale)))
    return fleet.run(order.directory, order.generator, order.postgresql, order.scale, order.progress, topics)


class Part(NamedTuple):
    run: Callable[[Order], Section]
    needs_generator: bool = False
    needs_peer: bool = False
    needs_postgresql: bool = False


PARTS = {
    "append": Part(_append),
    "peer": Part(_peer, needs_generator=True, needs_peer=True),
    "acks": Part(_acks),
    "topics": Part(_topics, needs_generator=True),
    "catch-up": Part(_catch_up),
    "restart": Part(_restart),
    "neighbours": Part(_neighbours),
    "shared-slots": Part(lambda order: shared_slots.run(order.directory, order.progress)),
    "dispatch": Part(_dispatch, needs_peer=True),
    "rates": Part(_rates),
    "opening": Part(_opening, needs_peer=True),
    "listing": Part(_listing),
    "lists": Part(_lists),
    "compaction": Part(_compaction),
    "billing": Part(_billing),
    "delayed": Part(_delayed),
    "gateway": Part(_gateway),
    "producer": Part(_producer),
    "postgresql": Part(_postgresql, needs_postgresql=True),
    "fleet": Part(_fleet, needs_generator=True),
    "bookies": Part(_bookies, needs_generator=True, needs_peer=True),
    "delayed-peer": Part(_delayed_peer, needs_peer=True),
}
PAGES = {  # of more than one part
    "the-log": ("append", "peer", "acks", "topics", "catch-up", "restart"),
    "features": ("dispatch", "opening"),
}


def run(order: Order, names: list[str]) -> Iterator[Section]:
    """One section after the other, each as soon as it is measured."""
    order.progress("floors of this machine")
    with tempfile.TemporaryDirectory(dir=order.directory, prefix="magnetar-bench-") as made:
        yield floors_section(floors.measure(Path(made)))
    for name in names:
        try:
            section = PARTS[name].run(order)
        except Interrupted:
            raise
        except (Exception, SystemExit) as error:  # whatever it was: the other parts are worth having
            text = str(error) if isinstance(error, Stalled) else f"{type(error).__name__}: {error}"
            section = Section(name, failures=[text])
            order.progress(f"failed: {text}")
        processes.stop_if_interrupted()
        yield section
