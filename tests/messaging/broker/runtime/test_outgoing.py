"""What a connection sends: gathered or at once, always in order, and never after the end."""

from __future__ import annotations

import asyncio
from typing import cast

from messaging.broker.core.accountant import Accountant
from messaging.broker.runtime.wire.outgoing import GATHERED_BYTES_MAX, UNREAD_BYTES_MAX, Outgoing


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unread_bytes = 0

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes


def outgoing(transport: Transport) -> tuple[Outgoing, list[int]]:
    unread: list[int] = []
    accountant = Accountant(64 << 20)
    return Outgoing(cast(asyncio.Transport, transport), unread.append, accountant.egress, set()), unread


async def test_one_turn_of_the_loop_is_one_write() -> None:
    transport = Transport()
    out, _ = outgoing(transport)
    out.gather(b"a")
    out.gather(b"b")
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [b"ab"]
    await asyncio.sleep(0)
    assert transport.written == [b"ab"]


async def test_what_is_sent_at_once_does_not_overtake_what_was_gathered() -> None:
    transport = Transport()
    out, _ = outgoing(transport)
    out.gather(b"receipt")
    out.send(b"success")
    assert transport.written == [b"receipt", b"success"]
    await asyncio.sleep(0)
    assert transport.written == [b"receipt", b"success"]


async def test_much_does_not_wait() -> None:
    transport = Transport()
    out, _ = outgoing(transport)
    out.gather(b"a")
    out.gather(bytes(GATHERED_BYTES_MAX))
    assert [len(data) for data in transport.written] == [GATHERED_BYTES_MAX + 1]


async def test_the_end_sends_what_was_gathered_and_nothing_after() -> None:
    transport = Transport()
    out, _ = outgoing(transport)
    out.gather(b"last")
    out.close()
    out.gather(b"late")
    out.send(b"later")
    await asyncio.sleep(0)
    assert transport.written == [b"last"]


async def test_a_peer_that_lets_too_much_pile_up_is_named() -> None:
    transport = Transport()
    out, unread = outgoing(transport)
    transport.unread_bytes = UNREAD_BYTES_MAX + 1
    out.send(b"x")
    assert unread == []  # it does read: the transport has not said otherwise
    out.writable = False
    out.send(b"y")
    assert unread == [UNREAD_BYTES_MAX + 1]
