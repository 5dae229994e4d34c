"""Objects of which everything raises, for loops that must go on."""

from __future__ import annotations

import errno
from typing import Any


def boom(*_: Any, **__: Any) -> Any:
    raise ValueError("not expected")


def raises_no_space(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


class Raises:
    """Stands for a peer, a topic or a buffer of which everything raises."""

    text = "persistent://acme/orders/raises"

    def __getattr__(self, name: str) -> Any:
        return boom

    @property
    def totals(self) -> Any:
        return boom()


class DeadLettersLater:
    """Stands for a subscription whose dead letters are to be moved later, with a topic of which asking anything raises then."""

    retry_at_ms = 2**62
    moving = False
    dead_letters = state = redeliveries = property(lambda self: self)
    dead = True
    closed = property(boom)


class UsedOrNot:
    """A topic that cannot say whether anybody uses it."""

    keeps_messages = False
    closed: str | None = None

    @property
    def used(self) -> bool:
        boom()
        return False


class LevelOf:
    """A level of a rate limit at which one sender may go on."""

    policy = "publish_rate_messages"
    waiting = False

    def __init__(self, sender: object) -> None:
        self._sender = sender

    def wait_s(self, now_s: float) -> float:
        return 0

    def turn(self, now_s: float) -> list[object]:
        return [self._sender]
