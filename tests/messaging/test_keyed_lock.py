"""One after the other for each key."""

from __future__ import annotations

import asyncio

import pytest

from messaging.keyed_lock import keyed_lock


async def test_a_key_is_locked_by_a_single_task_and_other_keys_meanwhile() -> None:
    under_way: dict[str, asyncio.Future[None]] = {}
    inside: list[str] = []
    go_on = asyncio.Event()

    async def work(key: str) -> None:
        async with keyed_lock(under_way, key):
            assert key not in inside
            inside.append(key)
            await go_on.wait()
            inside.remove(key)

    tasks = [asyncio.ensure_future(work(key)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    assert sorted(inside) == ["a", "b"]
    go_on.set()
    await asyncio.gather(*tasks)
    assert under_way == {}


async def test_a_failure_and_a_cancellation_let_the_next_one_in() -> None:
    under_way: dict[str, asyncio.Future[None]] = {}
    with pytest.raises(ValueError):
        async with keyed_lock(under_way, "a"):
            raise ValueError
    holding = asyncio.ensure_future(hold(under_way))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(hold(under_way))
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await asyncio.sleep(0)
    assert "a" in under_way and not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert under_way == {}


async def hold(under_way: dict[str, asyncio.Future[None]]) -> None:
    async with keyed_lock(under_way, "a"):
        await asyncio.Event().wait()
