"""Blocks of dead letters that come in pieces."""

from __future__ import annotations

import pytest

from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.dead_letters import incoming_blocks
from messaging.broker.runtime.dead_letters.incoming_blocks import IncomingBlocks
from messaging.errors import NotReady
from tests.support.waiting import eventually

BUDGET = 8 << 20


async def test_what_came_is_charged_until_it_is_whole() -> None:
    memory = MemoryLimiter(BUDGET).egress
    blocks = IncomingBlocks(memory)
    assert blocks.add("1", "acme", 0, 3, b"all") == b"all"
    assert blocks.add("2", "acme", 0, 9, b"one") is None
    assert blocks.add("3", "acme", 0, 4, b"an") is None
    assert memory.used_bytes == 13
    assert blocks.add("2", "acme", 3, 9, b"two") is None
    assert blocks.add("3", "acme", 2, 4, b"d!") == b"and!"
    assert blocks.add("2", "acme", 6, 9, b"six") == b"onetwosix"
    assert memory.used_bytes == 0


@pytest.mark.parametrize(("at", "data"), [(0, b"one"), (2, b"two"), (3, b"too long"), (4, b"two")])
async def test_pieces_that_do_not_fit_are_refused_and_nothing_is_kept(at: int, data: bytes) -> None:
    memory = MemoryLimiter(BUDGET).egress
    blocks = IncomingBlocks(memory)
    blocks.add("1", "acme", 0, 9, b"one")
    with pytest.raises(NotReady, match="do not fit"):
        blocks.add("1", "acme", at, 9, data)
    assert memory.used_bytes == 0
    with pytest.raises(NotReady, match="do not fit"):
        blocks.add("1", "acme", 3, 9, b"two")
    assert memory.used_bytes == 0


async def test_a_tenant_takes_no_more_memory_than_there_is() -> None:
    memory = MemoryLimiter(BUDGET).egress
    blocks = IncomingBlocks(memory)
    blocks.add("1", "acme", 0, memory.limit_bytes // 2, b"begun")
    with pytest.raises(NotReady, match="not enough memory"):
        blocks.add("2", "acme", 0, memory.limit_bytes // 2, b"begun")
    assert blocks.add("3", "neighbour", 0, 4, b"more") == b"more"


async def test_what_is_not_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_blocks, "KEPT_S", 0.01)
    memory = MemoryLimiter(BUDGET).egress
    blocks = IncomingBlocks(memory)
    blocks.add("1", "acme", 0, 9, b"one")
    await eventually(lambda: memory.used_bytes == 0)
    with pytest.raises(NotReady, match="do not fit"):
        blocks.add("1", "acme", 3, 9, b"two")
