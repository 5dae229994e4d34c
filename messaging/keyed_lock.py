"""One after the other for each key, on the event loop: a lock that costs nothing while nobody holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def keyed_lock(under_way: dict[str, asyncio.Future[None]], key: str) -> AsyncIterator[None]:
    """Waits for whoever holds `key`, then holds it. `under_way` is the caller's and stays the same object: what is in it is held,
    and each future in it is done when that is over."""
    while key in under_way:
        await asyncio.wait([under_way[key]])
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    under_way[key] = over
    try:
        yield
    finally:
        del under_way[key]
        if not under_way:
            under_way.clear()  # gives the table's memory back, which deleting does not
        over.set_result(None)
