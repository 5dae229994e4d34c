"""The index of delayed messages in small: what takes a hundred thousand messages and hours takes a few of them and seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

from messaging.broker.core.delayed import newest, overrides, run_format, run_index, run_jobs, run_merge, time_slots
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.run_jobs import Job
from messaging.broker.core.dispatch import key_shared
from messaging.broker.runtime.topics.delayed import delivery as delayed_delivery
from messaging.broker.runtime.topics.delayed import due_reader, run_entries, run_store
from messaging.broker.runtime.topics.delayed.run_store import RunStore

SEALED = 8  # entries: a run
FAR_MS = 300  # what is due later can be sealed
SMALL: tuple[tuple[ModuleType, dict[str, int]], ...] = (
    (newest, {"FAR_MS": FAR_MS}),
    (run_index, {"MERGED_RUNS": 3, "TAKEN_MAX": 5}),
    (run_jobs, {"AHEAD_MS": 400, "HEAD_BLOCKS_MAX": 2}),
    (due_reader, {"AHEAD_MS": 400, "LOOK_MS": 50}),
    (run_format, {"BLOCK_ENTRIES": 3}),
    (run_merge, {"BLOCK_ENTRIES": 3}),
    (overrides, {"JUDGED_MAX": 3}),
    (key_shared, {"SETTLED_MAX": 3}),
    (time_slots, {"MOVED_MAX": 5, "SLOT_BITS": 6}),
    (delayed_delivery, {"SEALED_AT_CLOSE": 4}),
    (run_store, {"FED_BLOCKS": 2}),
    (run_entries, {"PART_BYTES": 64}),
)


@contextmanager
def small_sizes() -> Iterator[None]:
    with ExitStack() as stack:
        for module, values in SMALL:
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


@contextmanager
def small_runs(count: Callable[[str], None]) -> Iterator[None]:
    """`count` is told of each job that was done."""
    real = RunStore.do

    async def counted(store: RunStore, index: RunIndex, job: Job) -> EntrySets:
        lost = await real(store, index, job)
        count(f"{type(job).__name__} of delayed messages")
        if lost:
            count("delayed messages that were looked for")
        return lost

    replaced: Any = counted
    with small_sizes(), patch.object(RunStore, "do", replaced):
        yield
