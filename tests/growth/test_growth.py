"""No entry point of the event loop does more work beside ten times as much than its row allows. Steps are counted, not time."""

from __future__ import annotations

import pytest

from messaging.fairness.queue import FairQueue
from tests.growth.entry_points import ENTRY_POINTS, EntryPoint, Growth
from tests.growth.measure import measured

SIZES = [200, 2_000]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda entry_point: entry_point.name)
def test_work_does_not_grow_faster_than_it_may(entry_point: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messaging.broker.core.dispatch.chunk_sets.CHUNKS_MAX", 1 << 30)
    steps = measured(entry_point, SIZES)
    assert not steps.grows, steps.row


def test_work_that_grows_with_the_square_is_noticed() -> None:
    def all_pairs(size: int) -> list[bool]:
        queue: FairQueue[int] = FairQueue()
        return [bool(queue.push("tenant", number)) for number in range(size * size // 1_000)]

    square = EntryPoint("square", Growth.LINEAR, lambda size: lambda: all_pairs(size))
    assert measured(square, [100, 1_000]).grows
    assert not measured(square._replace(made=lambda size: lambda: all_pairs(1_000)), [100, 1_000]).grows


def test_a_step_for_each_forty_of_them_is_noticed() -> None:
    def visit(size: int) -> list[bool]:
        queue: FairQueue[int] = FairQueue()
        return [bool(queue) for _ in range(size // 40)]

    assert measured(EntryPoint("visit", Growth.CONSTANT, lambda size: lambda: visit(size)), SIZES).grows
