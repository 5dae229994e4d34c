"""Leaves a peer that sends one message after another unread while the next commit waits: one read brings what it sent meanwhile.

The socket's low-water mark does it: below it the kernel wakes nobody. More than that, or the end of the connection, is read at
once. Consumers that have asked for plenty are left unread longer: nobody waits for their acknowledgements.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

from messaging.broker.core.consumer import Consumer
from messaging.storage.next_commit import NextCommit

LOW_WATER_BYTES = 32 << 10  # less than the socket's buffer holds in any case
PATIENT_COMMITS = 4  # for such consumers
PATIENT_CONSUMERS_MAX = 4  # with more on a connection none of it is left unread longer


class GatheredReads:
    __slots__ = ("_before", "_next_commit", "_socket", "_transport", "_waits")

    def __init__(self, transport: asyncio.Transport, next_commit: NextCommit) -> None:
        self._next_commit = next_commit
        self._transport: asyncio.Transport | None = transport  # None: the connection is gone, or cannot be left unread
        self._socket: socket.socket | None = None  # not before it is needed: each turn of one that was asked for costs more
        self._before = -1  # its number at the last read
        self._waits = 0  # commits until it is read again

    def read(self, sent: int, acked: int, consumers: Mapping[int, tuple[Any, Any, Consumer]]) -> None:
        """A read brought so many messages and acknowledgements, and the next commit is delayed. `consumers`: of the connection.

        It is left unread after several in one read, or a second message. Single acknowledgements are read as they come: the
        consumer may wait for what they bring."""
        again = self._before == self._next_commit.number
        self._before = self._next_commit.number
        if not self._waits and (sent + acked > 1 or (sent and again)) and self._set(LOW_WATER_BYTES):
            self._waits = 1 if sent or not _patient(consumers, acked) else PATIENT_COMMITS
            self._next_commit.when_due(self._due)

    def _due(self) -> None:
        self._waits -= 1
        if self._waits and self._next_commit.delayed:
            self._next_commit.when_due(self._due)
        else:
            self._waits = 0
            self._set(1)

    def _set(self, size: int) -> bool:
        try:
            if self._socket is None and self._transport is not None:
                self._socket = self._transport.get_extra_info("socket")
            if self._socket is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
                return True
        except (OSError, ValueError):  # closed meanwhile, or not known of such a socket
            self.close()
        return False

    def close(self) -> None:
        """The connection is gone; removes all references to it. Idempotent."""
        self._transport = self._socket = None


def _patient(consumers: Mapping[int, tuple[Any, Any, Consumer]], acked: int) -> bool:
    """Whether consumers that acknowledged so many get theirs for much longer without being heard: they have asked for plenty."""
    needed = 4 * PATIENT_COMMITS * acked
    return len(consumers) <= PATIENT_CONSUMERS_MAX and all(
        consumer.permits > needed and not consumer.blocked and not consumer.unacked.blocked for _, _, consumer in consumers.values()
    )
