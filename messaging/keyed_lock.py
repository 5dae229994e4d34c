"""Mutual exclusion per key on the event loop: a lock that uses no memory while nobody holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def keyed_lock(under_way: dict[str, asyncio.Future[None]], key: str) -> AsyncIterator[None]:
    """Waits until nobody holds `key`, then holds it. `under_way` belongs to the caller and contains the held keys; each future in
    it completes when its key is released."""
    while key in under_way:
        await asyncio.wait([under_way[key]])
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    under_way[key] = over
    try:
        yield
    finally:
        del under_way[key]
        if not under_way:
            under_way.clear()  # frees the table's memory, which deleting does not
        over.set_result(None)
