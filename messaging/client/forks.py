"""What becomes of clients in a process that was forked: sockets and event loop are the parent's, so each of them refuses."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

FORKED = "the process was forked after this client was made: make another one in the new process"


class Forkable(Protocol):
    def forked(self) -> None:
        """Called in the new process. Must do no I/O: what is connected is the parent's."""


_alive: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(client: Forkable) -> None:
    _alive.add(client)


def _after_fork() -> None:
    for client in list(_alive):
        client.forked()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
