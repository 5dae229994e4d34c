"""The base classes of requests and answers of the admin RPC, and what is said of a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import msgspec

from messaging.errors import NotReady
from messaging.permissions.model import Action


class Request(msgspec.Struct, kw_only=True):
    pass


class Answer(msgspec.Struct, kw_only=True):
    pass


class Empty(Answer, kw_only=True):
    pass


class Listing(Answer, kw_only=True):
    """Of all brokers together. `unreachable`: the ids of those that did not answer, whose part is missing."""

    unreachable: list[str] = []

    def whole(self) -> Self:
        """Itself, for whoever cannot do with a part. Raises `NotReady`."""
        if self.unreachable:
            raise NotReady(f"{', '.join(self.unreachable)} did not answer: try again, or see what is wrong there")
        return self


R = TypeVar("R", bound=Request)
A = TypeVar("A", bound=Answer)
B = TypeVar("B", bound=Answer)


@dataclass(frozen=True)
class Method(Generic[R, A]):
    """`name` is that on the wire.

    `reads`: it changes nothing, so that another broker may be asked the same where one stands still.
    `long_read`: the same, and it may take long; whoever leaves before the answer ends the work.
    `long_change`: it may be about thousands of partitions. It goes on whoever waits for it, and answers `under_way` where that
    takes long; "changes.outcome" has its answer then. Who asks for the same one meanwhile joins it if it is `idempotent`.
    `thousands`: it reads of thousands of partitions, so its answer is awaited as long as `pulsar-admin` awaits one.
    `idempotent` False: a second run answers `conflict` although the first one succeeded, or does as much again, so a lost answer
    must not lead to one.
    """

    name: str
    request: type[R]
    answer: type[A]
    permission: Action = Action.SERVICE
    reads: bool = False
    long_read: bool = False
    long_change: bool = False
    idempotent: bool = True
    thousands: bool = False

    @property
    def changes_nothing(self) -> bool:
        return self.reads or self.long_read

    def answering(self, answer: type[B]) -> Method[R, B]:
        """The same method, of which this answer is expected."""
        method: Method[R, Any] = self
        return replace(method, answer=answer)
