"""What one client asked for, shared out over the consumers of partitions."""

from __future__ import annotations

import random
from collections.abc import Callable

from messaging.broker.runtime.local.shared_permits import SharedPermits


class Partition:
    """Its dispatch follows in a later turn, as that of a topic does; it takes one message after the other while there is room."""

    def __init__(self, asked_for: SharedPermits, turns: list[Callable[[], None]], backlog: int) -> None:
        self.backlog, self.permits, self.taken = backlog, 0, 0
        self._asked_for, self._turns = asked_for, turns

    def serve(self, permits: int) -> None:
        self.permits = max(permits, self.permits)
        self._turns.append(self.dispatch)

    def dispatch(self) -> None:
        while self.backlog and self.permits > 0:
            if self._asked_for.room <= 0:
                self._asked_for.due(self)
                return
            self.backlog, self.permits, self.taken = self.backlog - 1, self.permits - 1, self.taken + 1
            self._asked_for.packed += 1
            self._asked_for.due(self)

    def publish(self) -> None:
        self.backlog += 1
        self._turns.append(self.dispatch)

    def hand_over(self) -> None:
        self._asked_for.packed -= self.taken
        self._asked_for.asked -= self.taken
        self.taken = 0


def run(turns: list[Callable[[], None]]) -> None:
    while turns:
        turns.pop(0)()


def test_nobody_is_given_more_than_was_asked_for_and_nothing_is_left_lying() -> None:
    for seed in range(200):
        draw, turns = random.Random(seed), list[Callable[[], None]]()
        asked_for = SharedPermits(turns.append)
        partitions = [Partition(asked_for, turns, draw.choice([0, 0, 1, 30])) for _ in range(draw.randint(1, 12))]
        for partition in partitions:
            asked_for.add(partition)
        given = asked = 0
        for _ in range(60):
            if draw.random() < 0.4:
                draw.choice(partitions).publish()
            else:
                more = draw.choice([1, 1, 2, 50])
                asked += more
                asked_for.ask(more)
            run(turns)
            given += sum(partition.taken for partition in partitions)
            for partition in partitions:
                partition.hand_over()
            assert given <= asked, seed
            assert given == asked or not sum(partition.backlog for partition in partitions), seed


def test_those_that_have_much_are_served_in_turn() -> None:
    turns: list[Callable[[], None]] = []
    asked_for = SharedPermits(turns.append)
    partitions = [Partition(asked_for, turns, 100) for _ in range(5)]
    for partition in partitions:
        asked_for.add(partition)
    for _ in range(50):
        asked_for.ask(1)
        run(turns)
    assert [partition.taken for partition in partitions] == [10] * 5
