"""TLS connections, counted from accept on, with few handshakes started per turn of the event loop.

A handshake costs a millisecond at its start, when the server signs. Without limits, a client that opens connections could start
hundreds of handshakes in one turn, and a silent one would hold a connection that nothing counts. So a connection counts as
unauthenticated as soon as it is accepted (`core/limits/connection_shares.py`), nothing is spent on it before its first message
arrives, and waiting handshakes start in turn by address, a few in each turn of the loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from messaging.broker.runtime.peers import Connected, Peers
from messaging.broker.runtime.turn_loop import TurnLoop

log = structlog.get_logger("broker.tls")

ACCEPTED_MAX = 16  # per turn of the event loop
BEGUN_COST = 4  # of a turn: three handshakes, since part of it is reserved for work that does not wait
HANDSHAKE_RECORD = 0x16
RECORD_HEAD_BYTES = 5
RECORD_BYTES_MAX = 16 << 10
LOOK_AGAIN_S = 0.1  # before looking again at an incomplete first message: the socket stays readable in the meantime
ACCEPT_AGAIN_S = 1.0  # after the system refused to accept a socket


class Handshake:
    """A connection that has not completed its TLS handshake."""

    def __init__(self, listener: TlsListener, sock: socket.socket, address: str) -> None:
        self.listener = listener
        self.sock = sock
        self.address = address
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.over = False

    def refuse(self, reason: str, detail: str = "") -> None:
        self.listener.refuse(self, reason, detail)


class TlsListener:
    """`connect` creates the protocol object of a connection; it gets the entry that counted the connection until then."""

    def __init__(
        self, peers: Peers, sock: socket.socket, context: ssl.SSLContext, connect: Callable[[Connected], asyncio.Protocol]
    ) -> None:
        self._peers = peers
        self._sock = sock
        self._context = context
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._turns: TurnLoop[Handshake] = TurnLoop(self.begin_handshake, BEGUN_COST, 1)
        self._handshakes: set[Handshake] = set()
        self.begun = 0
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        for handshake in list(self._handshakes):
            self._end(handshake)

    # --- before the first message

    def _accept(self) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                sock, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("tls.accept_failed", error=str(error))
                self._loop.remove_reader(self._sock)
                self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again)
                return
            sock.setblocking(False)
            handshake = Handshake(self, sock, str(peer[0]))
            self._handshakes.add(handshake)
            handshake_ms = self._peers.settings.handshake_ms
            handshake.deadline = self._loop.call_later(
                handshake_ms / 1000, self.refuse, handshake, "no TLS handshake", f"within handshake_ms = {handshake_ms}"
            )
            self._peers.counts(handshake, handshake.address)
            self._watch(handshake)

    def _accept_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._accept)

    def _watch(self, handshake: Handshake) -> None:
        if not handshake.over:
            self._loop.add_reader(handshake.sock, self._look, handshake)

    def _look(self, handshake: Handshake) -> None:
        """Data has arrived: it stays in the socket until the handshake starts."""
        self._loop.remove_reader(handshake.sock)
        try:
            data = handshake.sock.recv(RECORD_HEAD_BYTES + RECORD_BYTES_MAX, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return self._watch(handshake)
        except OSError:
            data = b""
        if not data:
            return self._end(handshake)
        if data[0] != HANDSHAKE_RECORD:
            return self.refuse(handshake, "no TLS", "its first byte begins no handshake: connect to the plain port, or with TLS")
        size = RECORD_HEAD_BYTES + int.from_bytes(data[3:5], "big") if len(data) >= RECORD_HEAD_BYTES else RECORD_BYTES_MAX
        if len(data) >= min(size, RECORD_BYTES_MAX):
            self._turns.wait(handshake.address, handshake)
        else:
            handshake.timer = self._loop.call_later(LOOK_AGAIN_S, self._watch, handshake)

    # --- handshakes

    def begin_handshake(self, handshake: Handshake) -> None:
        if not handshake.over:
            self._turns.turns.left -= 1
            self.begun += 1
            handshake.task = self._loop.create_task(self._perform(handshake), name="TLS handshake")

    async def _perform(self, handshake: Handshake) -> None:
        left_s = max(0.001, handshake.deadline.when() - self._loop.time()) if handshake.deadline else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._connect(handshake), handshake.sock, ssl=self._context, ssl_handshake_timeout=left_s
            )
        except (OSError, ssl.SSLError) as error:
            handshake.task = None
            self.refuse(handshake, "no TLS handshake", str(error))
        else:
            self._forget(handshake)

    # --- closing

    def refuse(self, handshake: Handshake, reason: str, detail: str = "") -> None:
        if not handshake.over:
            log.info("connection.refused", peer=handshake.address, reason=reason, detail=detail)
            self._peers.refused[reason] += 1
            self._end(handshake)

    def _end(self, handshake: Handshake) -> None:
        self._forget(handshake)
        if handshake.task is not None:
            handshake.task.cancel()
        elif handshake.sock.fileno() >= 0:  # a failed handshake has closed it
            self._loop.remove_reader(handshake.sock)
        handshake.sock.close()

    def _forget(self, handshake: Handshake) -> None:
        """The connection was handed over or is gone. Idempotent."""
        handshake.over = True
        self._handshakes.discard(handshake)
        self._peers.shares.leave(handshake)
        for timer in (handshake.timer, handshake.deadline):
            if timer is not None:
                timer.cancel()
