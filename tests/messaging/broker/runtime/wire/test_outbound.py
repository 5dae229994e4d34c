"""What a connection sends: gathered or at once, always in order, and never after the end."""

from __future__ import annotations

import asyncio
from typing import cast

from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.wire.outbound import (
    GATHERED_BYTES_MAX,
    UNREAD_BYTES_MAX,
    UNREAD_BYTES_PAUSE,
    UNREAD_BYTES_PAUSE_MIN,
    OutboundBuffer,
)


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unread_bytes = 0
        self.pause_bytes = 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.pause_bytes = high

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: list[bytes | memoryview]) -> None:
        self.written.append(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes


def outgoing(transport: Transport) -> tuple[OutboundBuffer, list[int]]:
    unread: list[int] = []
    memory_limiter = MemoryLimiter(64 << 20)
    return OutboundBuffer(cast(asyncio.Transport, transport), unread.append, memory_limiter.egress, set()), unread


def send_now(out: OutboundBuffer, data: bytes) -> None:
    out.gather(data)
    out.flush()


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
    out.gather_parts([b"success"])
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
    send_now(out, b"later")
    await asyncio.sleep(0)
    assert transport.written == [b"last"]


async def test_a_peer_that_lets_too_much_pile_up_is_named() -> None:
    transport = Transport()
    out, unread = outgoing(transport)
    transport.unread_bytes = UNREAD_BYTES_MAX + 1
    send_now(out, b"x")
    assert unread == []  # it does read: the transport has not said otherwise
    out.writable = False
    send_now(out, b"y")
    assert unread == [UNREAD_BYTES_MAX + 1]


async def test_large_parts_are_in_order_with_what_was_gathered() -> None:
    transport = Transport()
    out, _ = outgoing(transport)
    out.gather(b"receipt")
    out.gather_parts([b"head", memoryview(bytes(2000))])
    out.gather(b"small")
    assert transport.written == [b"receipt", b"head" + bytes(2000)]
    await asyncio.sleep(0)
    assert transport.written[2:] == [b"small"]


async def test_what_the_peer_has_not_read_counts_until_it_is_read_or_gone() -> None:
    transport = Transport()
    memory_limiter, unread = MemoryLimiter(64 << 20), set[OutboundBuffer]()
    out = OutboundBuffer(cast(asyncio.Transport, transport), lambda size: None, memory_limiter.egress, unread)
    out.belongs_to("acme")
    send_now(out, b"x")
    assert memory_limiter.egress.used_bytes == 0  # what was just written is on its way
    transport.unread_bytes = 5000
    send_now(out, b"y")
    assert (memory_limiter.egress.tenants, unread) == ({"acme": 5000}, {out})
    transport.unread_bytes = 700
    out.resume()
    assert memory_limiter.egress.tenants == {"acme": 700}
    out.belongs_to("globex")  # a new credential changes nothing
    transport.unread_bytes = 0
    out.count()
    assert (memory_limiter.egress.tenants, unread) == ({}, set())
    transport.unread_bytes = 900
    out.pause()
    out.end()
    assert (memory_limiter.egress.tenants, unread) == ({}, set())


async def test_less_may_pile_up_while_memory_is_short() -> None:
    transport = Transport()
    memory_limiter = MemoryLimiter(16 << 20)
    out = OutboundBuffer(cast(asyncio.Transport, transport), lambda size: None, memory_limiter.egress, set())
    out.belongs_to("acme")
    assert transport.pause_bytes == UNREAD_BYTES_PAUSE
    memory_limiter.egress.take("acme", 1 << 20)
    transport.unread_bytes = 10
    out.count()
    assert transport.pause_bytes == UNREAD_BYTES_PAUSE_MIN
    memory_limiter.egress.give("acme", 1 << 20)
    transport.unread_bytes = 9
    out.count()
    assert transport.pause_bytes >= UNREAD_BYTES_PAUSE // 2
