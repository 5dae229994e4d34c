from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from messaging.broker.http.websocket.window import QUEUED_BYTES_MAX, PushWindow, TimedPositions
from messaging.broker.runtime.local_messages import MessagePosition


def test_push_mode_lets_the_window_out_and_one_more_for_each_acknowledgement() -> None:
    window = PushWindow(3)
    assert window.to_ask() == 3
    assert window.to_ask() == 0
    window.arrived([10, 10, 10])
    for _ in range(3):
        window.sent(10)
    assert window.to_ask() == 0
    window.acknowledged()
    assert window.to_ask() == 1


def test_pull_mode_gives_what_was_permitted() -> None:
    window = PushWindow(1000, pull=True)
    assert window.to_ask() == 0
    window.granted(2)
    assert window.to_ask() == 2
    window.arrived([1, 1])
    window.acknowledged(2)
    assert window.to_ask() == 0


def test_a_batch_larger_than_the_permits_is_charged_to_later_ones() -> None:
    window = PushWindow(4)
    assert window.to_ask() == 4
    window.arrived([1] * 10)
    for _ in range(10):
        window.sent(1)
    window.acknowledged(6)
    assert window.to_ask() == 0
    window.acknowledged()
    assert window.to_ask() == 1


def test_an_acknowledgement_too_many_does_not_widen_the_window() -> None:
    window = PushWindow(2)
    window.acknowledged(100)
    assert window.to_ask() == 2


def test_a_peer_that_does_not_read_is_not_served() -> None:
    window = PushWindow(1000)
    first = window.to_ask()
    assert 0 < first < 1000
    window.arrived([QUEUED_BYTES_MAX // first + 1] * first)
    assert window.queued_bytes >= QUEUED_BYTES_MAX
    window.acknowledged(1000)
    assert window.to_ask() == 0
    window.sent(QUEUED_BYTES_MAX // first + 1)
    window.sent(QUEUED_BYTES_MAX // first + 1)
    assert window.to_ask() > 0


def test_large_messages_come_one_at_a_time() -> None:
    window = PushWindow(1000)
    first = window.to_ask()
    window.arrived([5 << 20])
    for _ in range(first - 1):
        window.arrived([1000])
    for _ in range(first):
        window.queued -= 1
    window.queued_bytes = 0
    assert window.to_ask() < first
    # and many again once the messages are small again
    for _ in range(300):
        window.acknowledged(1)
        window.to_ask()
        window.arrived([1000])
        window.sent(1000)
    assert window.to_ask() + window.outstanding > 100


class Windows(RuleBasedStateMachine):
    """Whatever a client does, what it may have coming stays within its window and its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.window = PushWindow(100)
        self.asked = self.came = 0
        self.queue: list[int] = []
        self.out = 0

    @rule()
    def ask(self) -> None:
        self.asked += self.window.to_ask()

    @rule(size=st.integers(0, 2 << 20))
    def arrive(self, size: int) -> None:
        if self.came < self.asked:
            self.came += 1
            self.queue.append(size)
            self.window.arrived([size])

    @rule()
    def send(self) -> None:
        if self.queue:
            self.window.sent(self.queue.pop(0))
            self.out += 1

    @rule()
    def acknowledge(self) -> None:
        if self.out:
            self.out -= 1
            self.window.acknowledged()

    @invariant()
    def within_bounds(self) -> None:
        assert self.window.outstanding == self.asked - self.came
        assert self.window.queued_bytes == sum(self.queue)
        assert self.window.outstanding + len(self.queue) + self.out <= 100

    @invariant()
    def never_stuck(self) -> None:
        idle = not self.queue and self.window.outstanding == 0 and self.out < 100
        assert not idle or self.window.credit > 0


TestWindows = Windows.TestCase


def test_positions_are_due_in_order() -> None:
    timed = TimedPositions(60)
    first, second, third = (MessagePosition(1, entry) for entry in range(3))
    timed.add(first, 0)
    timed.add(second, 10)
    timed.add(third, 20)
    timed.add(first, 30)
    timed.discard(second)
    assert timed.next_due_s == 60
    assert timed.take_due(59) == []
    assert timed.take_due(80) == [first, third]
    assert (timed.next_due_s, len(timed)) == (None, 0)
