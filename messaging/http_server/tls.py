"""A TLS listener whose connections have a slot, which they may have to give up, as soon as they are accepted.

asyncio's own server reports a connection only after its TLS handshake, so a peer that never finishes one would use resources
unseen. Therefore this listener accepts connections itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

from messaging.http_server.protocol import HttpProtocol

ACCEPTS_A_TURN = 64
BACKLOG = 1024
RETRY_S = 1.0  # after an accept that failed: the process has as many files open as it may


class _Handshake:
    """Stands for a connection while it is not one of HTTP yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.task: asyncio.Task[None] | None = None

    def give_way(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.close()

    def close(self) -> None:
        """Also where the task had not begun, or the loop still holds the socket."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class TlsListener:
    """What `asyncio.Server` is to a server: `close`, and `wait_closed`."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, make: Callable[[], HttpProtocol]) -> None:
        self._sock = sock
        self._context = context
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._listen()

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock)
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                connection, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(RETRY_S, self._listen)
                return
            connection.setblocking(False)
            following, handshake = self._make(), _Handshake(connection)
            leaves = following.bounds.slots.arrive(handshake, address[0])
            if leaves is handshake:
                connection.close()
                continue
            if leaves is not None:
                leaves.give_way()
            handshake.task = self._loop.create_task(self._shake_hands(connection, handshake, following), name="tls handshake")
            self._tasks.add(handshake.task)
            handshake.task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: socket.socket, handshake: _Handshake, following: HttpProtocol) -> None:
        bounds = following.bounds
        following.arriving = lambda: bounds.slots.leave(handshake)
        try:
            await self._loop.connect_accepted_socket(
                lambda: following,
                sock=connection,
                ssl=self._context,
                ssl_handshake_timeout=bounds.header_s,
                ssl_shutdown_timeout=bounds.transfer_s,
            )
        except (OSError, TimeoutError):
            handshake.close()  # `ssl.SSLError` is an OSError: no TLS, none that we speak, too late, or gone
        except asyncio.CancelledError:
            handshake.close()
            raise
        finally:
            bounds.slots.leave(handshake)
