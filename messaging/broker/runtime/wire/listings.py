"""Responses that list topics, the largest of all: only a few are built at a time, in turn by tenant, when there is memory for them.

The expected size of a response, estimated from the last one for the same namespace, is charged as outgoing memory (`egress`) before
it is built; once it is built, what the peer has not read is charged instead. So a client cannot make the broker build responses
that it does not read: the next one waits, and is refused with a retryable error after a long wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.broker.core.memory_limiter import MemoryAccount
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.errors import NotReady
from messaging.fair_queue import FairQueue

MADE_MAX = 2  # at a time
EXPECTED_BYTES = 64 << 10  # estimate for the first listing of a namespace
NAME_BYTES = 64  # overhead per name in addition to its text: it is an object until it is encoded
SIZES_KEPT = 1000  # namespaces
LOOKS = 100  # for room
LOOK_S = 0.1


class Listings:
    def __init__(self) -> None:
        self.made = 0
        self._making = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._sizes: dict[str, int] = {}

    @asynccontextmanager
    async def room(self, account: MemoryAccount, out: OutboundBuffer, namespace: str) -> AsyncIterator[None]:
        """A listing is built and sent inside this context. Raises `NotReady` if there is no memory for a while."""
        tenant, expected = out.tenant, self._sizes.get(namespace, EXPECTED_BYTES)
        for _ in range(LOOKS):
            await self._begin(tenant)
            if out.closed or (out.writable and account.allows(tenant, expected)):
                break
            self._end()
            await asyncio.sleep(LOOK_S)
        else:
            raise NotReady("this tenant's clients have too many unread responses: read them and try again")
        account.take(tenant, expected)
        try:
            yield
            self.made += 1
            out.count()
        finally:
            account.give(tenant, expected)
            self._end()

    def took(self, namespace: str, names: list[str]) -> None:
        """Records the actual size of a listing, for the next estimate."""
        self._sizes.pop(namespace, None)
        self._sizes[namespace] = max(EXPECTED_BYTES, sum(map(len, names)) + NAME_BYTES * len(names))
        if len(self._sizes) > SIZES_KEPT:
            del self._sizes[next(iter(self._sizes))]

    async def _begin(self, tenant: str) -> None:
        if self._making < MADE_MAX:
            self._making += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.push(tenant, turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.discard(tenant, turn)
            if turn.done() and not turn.cancelled():
                self._end()
            raise

    def _end(self) -> None:
        following = self._waiting.pop()
        if following is None:
            self._making -= 1
        else:
            following.set_result(None)
