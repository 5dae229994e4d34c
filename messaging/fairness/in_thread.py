"""Work on a thread for a caller that may leave before it is done: a thread cannot be cancelled. So whoever asked leaves only when
the work has ended, and what it holds for it, a turn or memory, is held for as long as the thread is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """As `asyncio.to_thread`, which returns at once where it is cancelled."""
    return await to_its_end(asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named)))


async def to_its_end(working: asyncio.Future[T]) -> T:
    """Waits for `working`, also where the caller is cancelled meanwhile; that is then raised."""
    cancelled: asyncio.CancelledError | None = None
    try:
        while not working.done():
            try:
                await asyncio.wait({working})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return working.result()
        if not working.cancelled():
            working.exception()  # nobody is left to hear of it
        raise cancelled
    finally:
        # An error knows this frame. If the frame knew the error too, both would stay, with all that the work was given, until the
        # garbage collector looks for cycles, which it seldom does (`tune_gc`).
        del working, cancelled
