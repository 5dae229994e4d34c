from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from messaging.broker.http.websocket.window import QUEUED_BYTES_MAX, PushWindow, TimedPositions
from messaging.broker.runtime.local.messages import MessagePosition


def send(window: PushWindow, count: int, size: int = 1) -> None:
    for _ in range(count):
        assert window.may_send
        window.sent(size)


def test_push_mode_lets_the_window_out_and_one_more_for_each_acknowledgement() -> None:
    window = PushWindow(3)
    assert window.to_ask() == 3
    assert window.to_ask() == 0
    window.arrived([10, 10, 10])
    send(window, 3, 10)
    assert window.to_ask() == 0 and not window.may_send
    window.acknowledged()
    assert window.to_ask() == 1 and window.may_send


def test_pull_mode_gives_what_was_permitted() -> None:
    window = PushWindow(1000, pull=True)
    assert window.to_ask() == 0 and not window.may_send
    window.granted(2)
    assert window.to_ask() == 2
    window.arrived([1, 1])
    send(window, 2)
    window.acknowledged(2)
    assert window.to_ask() == 0 and not window.may_send


def test_a_batch_larger_than_the_permits_waits_for_its_turn() -> None:
    window = PushWindow(1)
    assert window.to_ask() == 1
    window.arrived([1] * 10)
    for _ in range(10):
        assert window.to_ask() == 0
        send(window, 1)
        assert not window.may_send
        window.acknowledged()
    assert window.to_ask() == 10, "the broker counts nine below zero, and one is wanted"


def test_an_acknowledgement_too_many_does_not_widen_the_window() -> None:
    window = PushWindow(2)
    window.acknowledged(100)
    assert window.to_ask() == 2


def test_a_peer_that_does_not_read_is_not_served() -> None:
    window = PushWindow(1000)
    first = window.to_ask()
    assert 0 < first < 1000
    size = QUEUED_BYTES_MAX // first + 1
    window.arrived([size] * first)
    assert window.queued_bytes >= QUEUED_BYTES_MAX
    window.acknowledged(1000)
    assert window.to_ask() == 0
    send(window, 2, size)
    assert window.to_ask() > 0


def test_large_messages_come_one_at_a_time() -> None:
    window = PushWindow(1000)
    first = window.to_ask()
    window.arrived([*[1000] * (first - 1), 5 << 20])
    send(window, first - 1, 1000)
    send(window, 1, 5 << 20)
    assert window.to_ask() == 1
    # and many again once the messages are small again
    for _ in range(300):
        window.arrived([1000])
        send(window, 1, 1000)
        window.acknowledged(2)
        window.to_ask()
    assert window.outstanding > 100


class Windows(RuleBasedStateMachine):
    """Whatever a client does, it is sent no more than its window; and with a broker that has messages it is never stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.window = PushWindow(20)
        self.broker_permits = 0
        self.queue: list[int] = []
        self.out = 0

    @rule()
    def ask(self) -> None:
        self.broker_permits += self.window.to_ask()

    @rule(sizes=st.lists(st.integers(0, 2 << 20), min_size=1, max_size=50))
    def arrive(self, sizes: list[int]) -> None:
        if self.broker_permits > 0:
            self.broker_permits -= len(sizes)
            self.queue += sizes
            self.window.arrived(sizes)

    @rule()
    def send(self) -> None:
        if self.queue and self.window.may_send:
            self.window.sent(self.queue.pop(0))
            self.out += 1

    @rule()
    def acknowledge(self) -> None:
        if self.out:
            self.out -= 1
            self.window.acknowledged()

    @invariant()
    def within_bounds(self) -> None:
        assert self.window.outstanding == self.broker_permits
        assert self.window.queued_bytes == sum(self.queue)
        assert self.out <= 20
        assert self.broker_permits + len(self.queue) + self.out <= 20 + 50

    @invariant()
    def never_stuck(self) -> None:
        if self.out == 20:
            return  # it is the client's turn
        if self.queue:
            assert self.window.may_send
        else:
            self.broker_permits += self.window.to_ask()
            assert self.broker_permits > 0


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
