"""Ids for ledgers, given out by sequences of ZooKeeper, as Apache's clients do it: all clients of a cluster share them.

A sequence has 31 bits. Ids are those of `idgen` until it is used up; from then on there is a node `idgen-long`, with a sequence for
each value of the upper 32 bits: ``idgen-long/HOB-0000000001``, and so on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from messaging.bookkeeper.errors import Unavailable

SEQUENCE_MAX = (1 << 31) - 2
UPPER_MAX = (1 << 29) - 1  # what is above is left to programs that choose their ids
_ATTEMPTS = 5
_UPPER = "HOB-"


class Sequences(ABC):
    """Each call may raise `Unavailable`."""

    @abstractmethod
    async def next_of(self, path: str) -> int:
        """The next number of the sequence below a node, which is made if it is not there. Above `SEQUENCE_MAX`, or below 0: it is
        used up."""

    @abstractmethod
    async def names_below(self, path: str) -> list[str] | None:
        """None: there is no such node."""

    @abstractmethod
    async def make(self, path: str) -> None:
        """If it is not there."""


async def new_ledger_id(sequences: Sequences, root: str) -> int:
    """Raises `Unavailable`."""
    upper_nodes = f"{root}/idgen-long"
    names = await sequences.names_below(upper_nodes)
    if names is None:
        number = await sequences.next_of(f"{root}/idgen")
        if 0 <= number <= SEQUENCE_MAX:
            return number
        await sequences.make(upper_nodes)
        names = []
    uppers = [int(name.removeprefix(_UPPER)) for name in names if name.startswith(_UPPER) and name[len(_UPPER) :].isdigit()]
    upper = max(uppers, default=1)
    for _ in range(_ATTEMPTS):
        number = await sequences.next_of(f"{upper_nodes}/{_UPPER}{upper:010d}")
        if 0 <= number <= SEQUENCE_MAX:
            return upper << 32 | number
        upper += 1
        if upper > UPPER_MAX:
            break
    raise Unavailable("ZooKeeper gives out no more ids of ledgers: name the ledger_id")
