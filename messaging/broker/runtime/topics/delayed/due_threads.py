"""What threads do to list and count delayed messages. They import numpy when they are first called: see `/run_threads.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyroaring import BitMap

from messaging.broker.core.delayed.newest import NewestParts
from messaging.broker.core.delayed.overrides import Rescheduled
from messaging.broker.core.delayed.run_jobs import DueEntry
from messaging.storage.ledger_store import Position


class DueEntries(Protocol):
    """Times and positions: see `run_format.Entries`."""


class Unread(Protocol):
    """Blocks of a run: see `due_list.RunStarts`."""


def in_memory(newest: NewestParts, rescheduled: Mapping[Position, Rescheduled], from_ms: int, until_ms: int) -> DueEntries:
    from messaging.broker.core.delayed import due_list

    return due_list.in_memory(newest, rescheduled, from_ms, until_ms)


def block_within(data: bytes | None, from_ms: int, until_ms: int) -> DueEntries:
    """Nothing of a block that cannot be read."""
    from messaging.broker.core.delayed import due_list

    return due_list.block_within(data, from_ms, until_ms)


def count_before(parts: Sequence[DueEntries], after: DueEntry | None, before_ms: int) -> int:
    from messaging.broker.core.delayed import due_list

    return due_list.count_before(parts, after, before_ms)  # type: ignore[arg-type]


def page(parts: Sequence[DueEntries], after: DueEntry | None, before_ms: int, count: int) -> list[DueEntry]:
    from messaging.broker.core.delayed import due_list

    return due_list.page(parts, after, before_ms, count)  # type: ignore[arg-type]


def counts(
    parts: Sequence[DueEntries],
    left_out: Mapping[int, BitMap],
    rescheduled: Mapping[Position, Rescheduled],
    runs: Sequence[tuple[Sequence[int], int]],
    edges: list[int],
) -> list[int]:
    from messaging.broker.core.delayed import due_list

    return due_list.counts(
        parts,  # type: ignore[arg-type]
        due_list.positions_of(left_out),
        due_list.of_rescheduled(rescheduled),
        runs,
        edges,
    )
