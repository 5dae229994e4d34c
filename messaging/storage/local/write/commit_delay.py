"""Decides how long to wait between two commits, so that the second takes more messages. Pure: the time is an argument.

Where messages come one by one, each would be a commit, and a few reads and writes, of its own: the price of those is many times the
price of the message. After a pause of half a millisecond there are several to share it. Whoever waits for a receipt before it sends
the next message must not pay for that, and only a try can tell: in a closed loop fewer messages come while commits wait, in an
open one as many as before.

So commits are counted in windows. In a plain window nothing waits. If its messages came a few to a commit, the next window is a
try: commits wait. If it brought fewer messages a second than the plain one, waiting ends, and is tried again after a time that
quadruples with each failure. Otherwise waiting goes on, and now and then a plain window looks again. One message in flight is never
tried: each of its commits has one message.
"""

from __future__ import annotations

PLAIN_WINDOW_S = 0.03
TRY_WINDOW_S = 0.015  # shorter: it may cost a closed loop a part of its speed
KEPT_SHARE = 0.8  # of the rate of the plain window: less is a closed loop
TRIES_APART_MIN = 1  # plain windows
TRIES_APART_FACTOR = 4  # after each failure
TRIES_APART_MAX = 128  # 4 s: the tries cost a closed loop less than a 200th
WAITING_WINDOWS = 64  # then a plain one looks whether the load has changed: a 30th of the time

MESSAGES_MIN = 1.25  # of a commit: one in flight has 1
MESSAGES_MAX = 16.0  # with more, a commit is cheap for each already
GATHERED_MIN = 2.0  # messages that come in the longest wait: fewer are not worth a wait
GATHERED = 16.0  # messages to wait for, at most: more make none cheaper
COMMIT_BYTES_MAX = 64 << 10  # average; larger messages cost more than their commit
BURST = 8  # a commit so many times larger than those limits ends the waiting at once


class CommitDelay:
    """`delay_s`: the wait in force; 0 in plain windows. `trying`: it is not known yet what it does to the rate."""

    __slots__ = (
        "_began",
        "_bytes",
        "_commits",
        "_delay_max_s",
        "_messages",
        "_plain_left",
        "_plain_rate",
        "_tries_apart",
        "_waiting_left",
        "delay_s",
        "trying",
    )

    def __init__(self, delay_max_s: float) -> None:
        self._delay_max_s = delay_max_s
        self.delay_s = 0.0
        self._plain_rate = 0.0
        self._tries_apart = self._plain_left = TRIES_APART_MIN
        self.trying = False
        self._waiting_left = 0
        self._begin(0.0)

    def committed(self, now: float, messages: int, size_bytes: int) -> float:
        """A commit of so many messages ended. Returns for how many seconds the next must not begin."""
        if messages:
            self._commits += 1
            self._messages += messages
            self._bytes += size_bytes
        elapsed_s = now - self._began
        if self.delay_s:
            if messages > BURST * MESSAGES_MAX or size_bytes > BURST * COMMIT_BYTES_MAX:
                self._plain(TRIES_APART_MIN, now)
            elif elapsed_s >= (TRY_WINDOW_S if self.trying else PLAIN_WINDOW_S):
                self._waited(self._messages / elapsed_s, now)
        elif elapsed_s >= PLAIN_WINDOW_S:
            self._plain_left -= 1
            if self._plain_left <= 0 and self._worth_a_try(elapsed_s):
                self._plain_rate = self._messages / elapsed_s
                self.delay_s = min(self._delay_max_s, GATHERED / self._plain_rate)
                self.trying = True
                self._waiting_left = WAITING_WINDOWS
            self._begin(now)
        return self.delay_s

    def _worth_a_try(self, elapsed_s: float) -> bool:
        commits, messages = self._commits, self._messages
        return (
            MESSAGES_MIN * commits <= messages <= MESSAGES_MAX * commits
            and self._bytes <= COMMIT_BYTES_MAX * commits
            and messages * self._delay_max_s >= GATHERED_MIN * elapsed_s
        )

    def _waited(self, rate: float, now: float) -> None:
        """The end of a window in which commits waited."""
        self._waiting_left -= 1
        if rate < KEPT_SHARE * self._plain_rate:
            if self.trying:
                self._tries_apart = min(TRIES_APART_FACTOR * self._tries_apart, TRIES_APART_MAX)
            self._plain(self._tries_apart, now)
            return
        if self.trying:
            self.trying = False
            self._tries_apart = TRIES_APART_MIN
        if self._waiting_left <= 0:
            self._plain(TRIES_APART_MIN, now)
        else:
            self._begin(now)

    def _plain(self, windows: int, now: float) -> None:
        self.delay_s = 0.0
        self.trying = False
        self._plain_left = windows
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._began = now
        self._commits = self._messages = self._bytes = 0
