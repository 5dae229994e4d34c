"""What one client of single messages asked for, over all the consumers behind it: one of a plain topic, or one of each
partition.

Consumers of partitions cannot have permits for all of it each: together they would be sent many times what was asked for. So each
has a few permits, and is writable only while there is room, that is, as long as more messages were asked for than consumers were
given. Whoever found no room, or was given something since it last got permits, is served when there is room again, in the order of
arrival and no more than there is room for, so that a turn costs what was asked for, however many partitions there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

SERVED_A_TURN = 64  # about 0.2 ms


class Unpacking(Protocol):
    """Opens entries and hands over their messages."""

    def resume(self) -> bool:
        """Whether it will hand over something in a later turn because of this."""


class PermitHolder(Protocol):
    """A consumer of a subscription."""

    def serve(self, permits: int) -> None:
        """It may have so many permits; one that has them and did not take a message for want of room is to be asked again."""


def _next_turn(act: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(act)


class SharedPermits:
    """`soon`: does something in a later turn of the loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], None] = _next_turn) -> None:
        self._soon = soon
        self.asked = 0  # messages asked for and not handed over
        self.packed = 0  # messages that were given to consumers, in entries, and not handed over
        self.consumers: dict[PermitHolder, None] = {}
        self._waiting: dict[Unpacking, None] = {}  # they have messages that nobody asked for yet
        self._due: dict[PermitHolder, None] = {}
        self._serving = False

    @property
    def room(self) -> int:
        """Below zero after a batch that was larger."""
        return self.asked - self.packed

    def ask(self, messages: int) -> None:
        self.asked += messages
        if len(self.consumers) == 1:  # it has permits for everything
            self._due.update(self.consumers)
        self.pass_on()
        self.serve_soon()

    def add(self, consumer: PermitHolder) -> None:
        self.consumers[consumer] = None
        self.due(consumer)

    def discard(self, consumer: PermitHolder) -> None:
        self.consumers.pop(consumer, None)
        self._due.pop(consumer, None)

    def due(self, consumer: PermitHolder) -> None:
        """It found no room, or was given something."""
        if consumer in self.consumers:
            self._due[consumer] = None
            self.serve_soon()

    def wait(self, opening: Unpacking) -> None:
        self._waiting[opening] = None

    def forget(self, opening: Unpacking) -> None:
        self._waiting.pop(opening, None)

    def pass_on(self) -> None:
        """One of those that wait goes on. It passes on what it leaves."""
        while self.asked > 0 and self._waiting:
            opening = next(iter(self._waiting))
            del self._waiting[opening]
            if opening.resume():
                return

    def serve_soon(self) -> None:
        if self._due and self.room > 0 and not self._serving:
            self._serving = True
            self._soon(self._serve)

    def _serve(self) -> None:
        """Later than what made room, so that consumers are not given anything inside of a decision about another."""
        self._serving = False
        for _ in range(min(SERVED_A_TURN, self.room, len(self._due))):
            consumer = next(iter(self._due))
            del self._due[consumer]
            consumer.serve(max(1, self.room // len(self.consumers)))
        self.serve_soon()  # those who were served may have nothing to take
