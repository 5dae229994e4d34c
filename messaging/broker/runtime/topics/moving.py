"""Why a topic is closed that moves to another broker: its clients are told once that one owns it, and where that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from messaging.errors import NotReady

TOLD_AT_ONCE = 100


class Moving(NotReady):
    """`addresses`, by kind, of the new owner: known from `tell` on; None where clients have to look up."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.addresses: Mapping[str, str] | None = None
        self._waiting: list[Callable[[], None]] | None = []

    def when_told(self, say: Callable[[], None]) -> None:
        """`say` tells one client: now, or as soon as it is known what to tell."""
        if self._waiting is None:
            say()
        else:
            self._waiting.append(say)

    def tell(self, addresses: Mapping[str, str] | None) -> None:
        """Calls whoever waits, some in each turn of the loop: a bundle may have many thousands of clients. None of them raises."""
        waiting, self._waiting = self._waiting, None
        self.addresses = addresses
        self._tell(waiting or [], 0)

    def _tell(self, waiting: list[Callable[[], None]], start: int) -> None:
        for say in waiting[start : start + TOLD_AT_ONCE]:
            say()
        if start + TOLD_AT_ONCE < len(waiting):
            asyncio.get_running_loop().call_soon(self._tell, waiting, start + TOLD_AT_ONCE)
