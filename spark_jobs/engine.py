"""Where the tasks of a job run: in its own process as long as there is little to do, and on Spark from the first work that is more.

Spark's start and end cost 7 s of CPU, as much as three million records: an hour with little new in it needs none. Where Spark is
not installed, a job of this machine runs in its own process, however much there is to do: on one core, one task after the other.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from spark_jobs.config import Progress, Request

T = TypeVar("T")
R = TypeVar("R")
ROWS_A_TASK = 1000  # that each task is counted as, beside its own: opening and writing files


def spark_installed() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def on_this_machine(master: str) -> bool:
    """Whether a Spark master is this machine itself, and no cluster."""
    return master.startswith("local")


def rows_for_spark(request: Request) -> float:
    """From how many rows on work goes to Spark."""
    if not on_this_machine(request.master):
        return 0
    return request.spark_rows_min if spark_installed() else float("inf")


class Engine(Protocol):
    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        """The results of `work` on each item, in the order of the items; `rows`: how many there are in all, for the progress shown.
        An item may be worked on more than once."""


class RunningEngine(Engine, Protocol):
    """One that was started, and must be stopped."""

    @property
    def version(self) -> str: ...

    def stop(self) -> None: ...

    def why_it_failed(self, error: Exception, request: Request, kills_before: int) -> Exception:
        """`error`, or what is behind it. `kills_before`: what `death.kernel_kills` said when it was started."""


class LocalFirstEngine:
    """Implements `Engine`. `start` starts the large one, for the first work of `rows_min` rows or more; from then on everything
    runs there. `cores`: of the large one, as far as it is known before."""

    def __init__(self, start: Callable[[], Engine], rows_min: float, cores: int, report: Callable[[Progress], None]) -> None:
        self._start, self._rows_min, self._cores, self._report = start, rows_min, cores, report
        self._started: Engine | None = None

    @property
    def cores(self) -> int:
        return self._started.cores if self._started is not None else self._cores

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        if not items:
            return []
        if self._started is None and rows + ROWS_A_TASK * len(items) < self._rows_min:
            return self._run_here(what, work, items, rows)
        if self._started is None:
            self._started = self._start()
        return self._started.run(what, work, items, rows)

    def _run_here(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        began = time.monotonic()
        self._report(Progress(what, len(items), 0, rows, 0.0))
        results = []
        for item in items:
            results.append(work(item))
            self._report(Progress(what, len(items), len(results), rows, time.monotonic() - began))
        return results
