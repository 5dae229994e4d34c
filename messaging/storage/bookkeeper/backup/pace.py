"""How fast a backup reads, so that it leaves the bookies' disks to those who publish and consume."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from messaging.token_bucket import TokenBucket


class Pace:
    """At most `bytes_per_s` on the average; `burst_bytes` at once."""

    def __init__(
        self,
        bytes_per_s: float,
        burst_bytes: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._bucket = TokenBucket(bytes_per_s, burst_bytes, now_s())
        self._now_s = now_s
        self._sleep = sleep

    async def read(self, size_bytes: int) -> None:
        """So much was read. Returns when more may be."""
        self._bucket.tokens(self._now_s())
        self._bucket.spend(size_bytes)
        while (wait_s := self._bucket.wait(self._now_s())) > 0:
            await self._sleep(wait_s)
