"""One connection to one bookie: requests with ids, each answered once, by the bookie or by what happened to it.

An answer that comes after its request timed out is dropped: its id is gone.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import TypeAlias, cast

from messaging.bookkeeper.config import Config
from messaging.bookkeeper.core import packets, plain_packets
from messaging.bookkeeper.core.entries import Body, Buffer
from messaging.bookkeeper.core.packets import Answer, FrameSplitter, Status
from messaging.bookkeeper.core.plain_packets import Asked
from messaging.bookkeeper.errors import ProtocolViolation

Answered: TypeAlias = Callable[[Answer], None]
_TICKS_OF_A_TIMEOUT = 4


class BookieConnection(asyncio.Protocol):
    """`lost` is called once, when it can no longer be used; all requests were answered with CONNECTION_LOST before."""

    def __init__(self, config: Config, lost: Callable[[str], None]) -> None:
        self._config = config
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(config.frame_bytes_max)
        self._requests: dict[int, tuple[Answered, int]] = {}
        self._deadlines: deque[tuple[float, int]] = deque()  # all requests have the same timeout, so they end in their order
        self._timer: asyncio.TimerHandle | None = None
        self._last_txn_id = 0
        self._outgoing: list[Buffer] = []
        self._problem = "the bookie closed the connection"
        self.outstanding_bytes = 0
        self.closed = False

    # --- requests ----------------------------------------------------------------------------------------------------------------

    def add(self, ledger_id: int, entry_id: int, key: bytes, body: Body, recovery: bool, answered: Answered) -> None:
        """OVERLOADED comes at once if the bookie takes nothing any more."""
        size = sum(map(len, body))
        txn_id = self._register_add(answered, size)
        if txn_id is not None:
            self._send(packets.encode_add(txn_id, ledger_id, entry_id, key, size, recovery), *body)

    def read(self, ledger_id: int, entry_id: int, fence_key: bytes | None, answered: Answered) -> None:
        txn_id = self._register(answered, 0)
        if txn_id is not None:
            self._send(packets.encode_read(txn_id, ledger_id, entry_id, fence_key))

    def disk_space(self, answered: Answered) -> None:
        txn_id = self._register(answered, 0)
        if txn_id is not None:
            self._send(packets.encode_bookie_info(txn_id))

    async def start_tls(self) -> None:
        """Raises `OSError` if the bookie does not offer it or its certificate is not trusted."""
        context = self._config.ssl_context
        assert context is not None and self._transport is not None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        txn_id = self._register(lambda answer: None if future.done() else future.set_result(answer), 0)
        assert txn_id is not None
        self._send(packets.encode_start_tls(txn_id))
        answer = await future
        if answer.status is not Status.OK:
            raise ConnectionError(f"the bookie does not start TLS: {answer.status.name}")
        plain = self._transport
        peer = self._config.check_hostname or plain.get_extra_info("peername")[0]
        upgraded = await loop.start_tls(plain, self, context, server_hostname=peer)
        if upgraded is None:
            raise ConnectionError("the connection ended while TLS began")
        self._transport = upgraded

    def close(self, problem: str = "this client closed the connection") -> None:
        self._problem = problem
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # What the network takes and nobody gets is sent again ever more rarely: after a cut of half a minute a connection is of
            # no use for as long again, while a new one would be made at once.
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # of Linux
                timeout_ms = max(1, int(self._config.request_timeout_s * 1000))
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)

    def data_received(self, data: bytes) -> None:
        try:
            for packet in self._splitter.feed(data):
                self._packet_received(packet)
        except ProtocolViolation as error:
            self.close(error.message)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._problem = f"the connection broke: {error}"
        self._end()

    # --- inside ------------------------------------------------------------------------------------------------------------------

    def _packet_received(self, packet: bytes) -> None:
        """Raises `ProtocolViolation`."""
        self._answer(packets.decode_answer(packet))

    def _answer(self, answer: Answer) -> None:
        request = self._requests.pop(answer.txn_id, None)
        if request is not None:
            self.outstanding_bytes -= request[1]
            request[0](answer)

    def _register_add(self, answered: Answered, size: int) -> int | None:
        if self.outstanding_bytes + size > self._config.bookie_bytes_max and self.outstanding_bytes:
            answered(Answer(0, Status.OVERLOADED))
            return None
        return self._register(answered, size)

    def _register(self, answered: Answered, size: int) -> int | None:
        if self.closed:
            answered(Answer(0, Status.CONNECTION_LOST))
            return None
        self._last_txn_id += 1
        self._requests[self._last_txn_id] = (answered, size)
        self.outstanding_bytes += size
        loop = asyncio.get_running_loop()
        self._deadlines.append((loop.time() + self._config.request_timeout_s, self._last_txn_id))
        if self._timer is None:
            self._timer = loop.call_later(self._config.request_timeout_s, self._expire)
        return self._last_txn_id

    def _send(self, *parts: Buffer) -> None:
        """What is sent in one turn of the loop goes in one call."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += parts

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and not self.closed:
            self._transport.writelines(outgoing)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][1] not in self._requests):
            _, txn_id = self._deadlines.popleft()
            self._answer(Answer(txn_id, Status.TIMED_OUT))
        self._timer = None
        if self._deadlines and not self.closed:
            pause_s = max(self._deadlines[0][0] - now, self._config.request_timeout_s / _TICKS_OF_A_TIMEOUT / 10)
            self._timer = loop.call_later(pause_s, self._expire)

    def _end(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        requests, self._requests = self._requests, {}
        self.outstanding_bytes = 0
        for txn_id, (answered, _) in requests.items():
            answered(Answer(txn_id, Status.CONNECTION_LOST))
        self._lost(self._problem)


class PlainConnection(BookieConnection):
    """For adds and reads in version 2, nearly all that a bookie is asked. Where two ask for the same, the first answer is both's:
    they are the same request to the same bookie. TLS is started in version 3, before the first of them."""

    def __init__(self, config: Config, lost: Callable[[str], None]) -> None:
        super().__init__(config, lost)
        # Those that wait for the same answer, by the ids that they have here; what was asked last is last.
        self._asked: dict[Asked, list[int]] = {}

    def add(self, ledger_id: int, entry_id: int, key: bytes, body: Body, recovery: bool, answered: Answered) -> None:
        assert not recovery, "an answer to it could be taken for that to a writer's"
        size = sum(map(len, body))
        if self._ask(Asked(plain_packets.ADD, ledger_id, entry_id), self._register_add(answered, size)):
            self._send(plain_packets.encode_add(key, size), *body)

    def read(self, ledger_id: int, entry_id: int, fence_key: bytes | None, answered: Answered) -> None:
        assert fence_key is None and entry_id >= 0, "an answer to it could be taken for that to a plain read"
        if self._ask(Asked(plain_packets.READ, ledger_id, entry_id), self._register(answered, 0)):
            self._send(plain_packets.encode_read(ledger_id, entry_id))

    def _ask(self, asked: Asked, txn_id: int | None) -> bool:
        if txn_id is None:
            return False
        waiting = [earlier for earlier in self._asked.pop(asked, ()) if earlier in self._requests]
        self._asked[asked] = [*waiting, txn_id]
        return True

    def _expire(self) -> None:
        """What a bookie never answers is not kept for it."""
        super()._expire()
        expired = list(takewhile(lambda asked: self._asked[asked][-1] not in self._requests, self._asked))
        for asked in expired:
            del self._asked[asked]

    def _packet_received(self, packet: bytes) -> None:
        if not plain_packets.is_plain(packet):
            super()._packet_received(packet)
            return
        asked, status, body = plain_packets.decode_answer(packet)
        for txn_id in self._asked.pop(asked, ()):
            self._answer(Answer(txn_id, status, body))
