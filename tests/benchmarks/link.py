"""One connection of a load generator, past its handshake."""

from __future__ import annotations

from tests.benchmarks import load, wire
from tests.benchmarks.load import Stalled

_BUFFER_BYTES = 1 << 20


class Link:
    """It never blocks. Whoever reads takes whole frames from ``data[:fill]``."""

    def __init__(self, peer: load.Peer) -> None:
        self.peer, self.socket = peer, peer.socket
        self.data, self.fill = bytearray(_BUFFER_BYTES), len(peer.buffer)
        self.data[: self.fill] = peer.buffer
        self.out = bytearray()
        self.socket.setblocking(False)

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> None:
        size = self.socket.recv_into(memoryview(self.data)[self.fill :])
        if not size:
            raise Stalled("the broker closed the connection")
        self.fill += size

    def used(self, at: int) -> None:
        self.data[: self.fill - at] = self.data[at : self.fill]
        self.fill -= at

    def other(self, kind: int, at: int, size: int) -> None:
        """A frame that is neither a message nor a receipt."""
        if kind == wire.PING:
            self.out += wire.pong()
        elif kind in (wire.ERROR, wire.SEND_ERROR):
            raise Stalled(f"the broker refused: {bytes(self.data[at : at + size])!r}")

    def flush(self) -> None:
        if self.out:
            try:
                del self.out[: self.socket.send(self.out)]
            except BlockingIOError:
                pass
