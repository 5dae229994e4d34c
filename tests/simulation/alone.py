"""Runs a piece of the broker alone as the simulation runs the whole: on virtual time, with threads in an order that a seed decides.

    with simulated():
        for number in count(1):
            alone(5, lambda: work(disk))

The same seed gives the same operations in the same order, so that "before the N-th operation, for every N" means just that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

from tests.simulation.environment import substituted
from tests.simulation.threads import ThreadPool, Threads
from tests.simulation.virtual_time import VirtualClock, VirtualLoop
from tests.support.storage.fake_disk import FakeDisk

T = TypeVar("T")
_clock = VirtualClock()


@contextmanager
def simulated() -> Iterator[None]:
    with substituted(_clock, Random("chance")):
        yield


def alone(seed: int, work: Callable[[], Coroutine[Any, Any, T]], disk: FakeDisk | None = None) -> T:
    """What `work` returns. Threads change places at each operation of `disk`."""
    loop = VirtualLoop(_clock)
    threads = Threads.current = Threads(loop, Random(seed))
    loop.executor = ThreadPool(8)
    if disk is not None:
        disk.before_unlocked = lambda kind, path: threads.pause()
    try:
        return loop.run_until_complete(work())
    finally:
        threads.kill()
        loop.close()
