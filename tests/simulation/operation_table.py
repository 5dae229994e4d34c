"""The table of what can happen in a simulation, and what its parts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.simulation import Simulation

Perform = Callable[[Simulation], str | None]


class Operation(NamedTuple):
    weight: int  # how often, compared with the others
    perform: Perform


OPERATIONS: dict[str, Operation] = {}


def operation(weight: int) -> Callable[[Perform], Perform]:
    def add(perform: Perform) -> Perform:
        OPERATIONS[getattr(perform, "__name__", "")] = Operation(weight, perform)
        return perform

    return add


ENTRIES_MAX = 12  # published in one write
BATCH_MAX = 5
LARGE_BYTES = 20_000
PERMITS_MAX = 40


def padding_of(simulation: Simulation) -> int:
    """Most messages are small; of the large ones a segment holds few."""
    return simulation.random.choice((0, 0, 100, simulation.random.randint(0, LARGE_BYTES)))
