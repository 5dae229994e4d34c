"""When commits wait for more messages: where that spares commits, and never at the cost of those who wait for their receipts."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

from messaging.storage.local.write.commit_delay import CommitDelay

DELAY_S = 0.0006
COMMIT_S = 0.00025
ANSWER_S = 0.00005  # from a receipt to the client's next message
MESSAGE_BYTES = 1100


class Log:
    """A log that takes `COMMIT_S` for a commit, whatever it holds, and waits between commits as `CommitDelay` says."""

    def __init__(self, delay_s: float = DELAY_S) -> None:
        self.delay = CommitDelay(delay_s)
        self.now = 0.0
        self.commits = self.messages = self.waited = 0

    def commit(self, messages: int) -> float:
        """Returns when the next commit may begin."""
        self.now += COMMIT_S
        self.commits += 1
        self.messages += messages
        delay_s = self.delay.committed(self.now, messages, messages * MESSAGE_BYTES)
        self.waited += delay_s > 0
        self.now += delay_s
        return self.now

    @property
    def rate(self) -> float:
        return self.messages / self.now


def arrivals(rate: float, seed: int = 1) -> Iterator[float]:
    draw, now = random.Random(seed), 0.0
    while True:
        now += draw.expovariate(rate)
        yield now


def open_loop(log: Log, rate: float, seconds: float) -> None:
    """Messages come whether or not the others have their receipts."""
    coming = arrivals(rate)
    due = next(coming)
    until = log.now + seconds
    start = log.now
    while log.now < until:
        log.now = max(log.now, start + due)
        messages = 0
        while start + due <= log.now:
            messages += 1
            due = next(coming)
        log.commit(messages)


def closed_loop(log: Log, clients: int, seconds: float) -> None:
    """Each client sends its next message when it has the receipt of the last."""
    ready = deque([log.now] * clients)
    until = log.now + seconds
    while log.now < until:
        log.now = max(log.now, ready[0])
        messages = 0
        while ready and ready[0] <= log.now:
            ready.popleft()
            messages += 1
        ended = log.now + COMMIT_S
        log.commit(messages)
        ready.extend([ended + ANSWER_S] * messages)


def test_messages_that_come_one_by_one_share_commits() -> None:
    log = Log()
    open_loop(log, 10_000, 3)
    assert log.waited > 0.9 * log.commits
    assert log.messages > 7 * log.commits


def test_it_ends_with_the_load_and_begins_again() -> None:
    log = Log()
    open_loop(log, 10_000, 1)
    log.now += 5
    open_loop(log, 300, 1)
    assert not log.delay.delay_s
    open_loop(log, 10_000, 1)
    assert log.delay.delay_s


def test_a_single_message_in_flight_never_waits() -> None:
    log = Log()
    closed_loop(log, 1, 10)
    assert not log.waited


def test_closed_loops_are_as_fast_as_without() -> None:
    for clients in (2, 3, 4, 8, 16, 30, 100):
        plain, log = Log(0.0), Log()
        closed_loop(plain, clients, 10)
        closed_loop(log, clients, 10)
        assert log.rate > 0.99 * plain.rate, clients


def test_waiting_ends_soon_when_a_closed_loop_takes_over() -> None:
    plain, log = Log(0.0), Log()
    open_loop(log, 10_000, 1)
    assert log.delay.delay_s
    log.messages, before = 0, log.now
    closed_loop(log, 4, 10)
    closed_loop(plain, 4, 10)
    assert log.messages / (log.now - before) > 0.97 * plain.rate


def test_few_messages_are_not_worth_a_wait() -> None:
    log = Log()
    open_loop(log, 1_000, 5)
    assert not log.waited


def test_full_speed_never_waits() -> None:
    log = Log()
    for _ in range(20_000):
        log.commit(400)
    assert not log.waited


def test_a_burst_ends_it_at_once() -> None:
    log = Log()
    open_loop(log, 10_000, 1)
    assert log.delay.delay_s
    assert log.delay.committed(log.now, 1_000, 1_000 * MESSAGE_BYTES) == 0


def test_a_wait_is_no_longer_than_it_takes_for_enough_to_come() -> None:
    log = Log()
    open_loop(log, 40_000, 1)
    assert 0 < log.delay.delay_s < 0.9 * DELAY_S


def test_large_messages_do_not_wait() -> None:
    delay, now = CommitDelay(DELAY_S), 0.0
    for _ in range(2_000):
        now += COMMIT_S
        assert delay.committed(now, 2, 2 << 20) == 0


def test_acknowledgements_alone_do_not_count() -> None:
    delay, now = CommitDelay(DELAY_S), 0.0
    for _ in range(2_000):
        now += COMMIT_S
        assert delay.committed(now, 0, 0) == 0
