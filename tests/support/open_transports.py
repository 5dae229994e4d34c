"""What a test leaves open when its event loop ends: named at once, not by the collector of garbage in some later test.

A connection that is closed while its peer does not read would stay open when the loop ends: it is cut off here. One that nobody
closed is a fault of the test, or of what it tests.
"""

from __future__ import annotations

import asyncio
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def watched() -> Iterator[list[str]]:
    """Gives the list to which transports are added that nobody had closed when their loop was."""
    left: list[str] = []
    close = BaseSelectorEventLoop.close

    def closing(loop: BaseSelectorEventLoop) -> None:
        if not loop.is_closed() and not loop.is_running():
            left.extend(_cut_off(loop))
        close(loop)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseSelectorEventLoop, "close", closing)
        yield left


def _cut_off(loop: BaseSelectorEventLoop) -> list[str]:
    # The loop keeps its transports by descriptor until they are garbage, so that closed ones may be among them.
    transports = [transport for transport in list(vars(loop)["_transports"].values()) if _open(transport)]
    left = [repr(transport) for transport in transports if not transport.is_closing()]
    for transport in transports:
        transport.abort()
    if transports:
        loop.run_until_complete(asyncio.sleep(0))
    return left


def _open(transport: asyncio.Transport) -> bool:
    return bool(transport.get_extra_info("socket").fileno() >= 0)
