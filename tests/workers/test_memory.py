"""Memory that tasks leave behind goes back to the system, at a price that does not depend on how many they are."""

from __future__ import annotations

from workers.memory import EVERY_S, MemoryTrimmer


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_many_tasks_are_followed_by_one_trim() -> None:
    clock, trims = Clock(), []
    memory = MemoryTrimmer(clock, lambda: trims.append(clock.now_s))
    memory.trim_if_due()
    assert trims == []  # nothing was used
    for _ in range(100):  # a task every quarter of a second
        memory.used()
        memory.trim_if_due()
        clock.now_s += 0.25
    assert trims == [100.0, 100.0 + EVERY_S, 100.0 + 2 * EVERY_S]


def test_memory_left_by_the_last_task_is_trimmed_without_another() -> None:
    clock, trims = Clock(), []
    memory = MemoryTrimmer(clock, lambda: trims.append(clock.now_s))
    for _ in range(2):
        memory.used()
        memory.trim_if_due()
    assert len(trims) == 1
    clock.now_s += EVERY_S
    memory.trim_if_due()
    memory.trim_if_due()
    assert len(trims) == 2
