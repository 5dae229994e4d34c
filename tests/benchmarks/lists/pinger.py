"""A client that does nothing but ask whether the broker is there: how long that takes is how long its loop was held."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

_EVERY_S = 0.002
_PATIENCE_S = 60.0


class Pinger:
    """Between `with` and its end, in a thread of its own."""

    def __init__(self, broker_url: str) -> None:
        url = urlsplit(broker_url)
        self._socket = socket.create_connection((str(url.hostname), int(url.port or 0)), _PATIENCE_S)
        self._longest_s = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pinger", daemon=True)

    def __enter__(self) -> Pinger:
        connect = pb.Connect(client_version="pinger", auth_method=0, protocol_version=19)
        self._socket.sendall(frames.command(pb.Command.CONNECT, connect=connect))
        self._received()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join(_PATIENCE_S)
        self._socket.close()

    def longest_ms(self, during_s: float = 0.0) -> float:
        """That an answer took since this was asked last, after waiting so long."""
        self._end.wait(during_s)
        longest, self._longest_s = self._longest_s, 0.0
        return longest * 1e3

    def _run(self) -> None:
        while not self._end.wait(_EVERY_S):
            start = time.perf_counter()
            self._socket.sendall(frames.PING)
            while self._received() != pb.Command.PONG:
                pass
            self._longest_s = max(self._longest_s, time.perf_counter() - start)

    def _received(self) -> int:
        """The type of the next command."""
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        size = int.from_bytes(frame[:4], "big")
        return int(pb.Command.FromString(frame[4 : 4 + size]).type)

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return received
