"""Responses that list topics, the largest of all: only a few are built at a time, in turn by tenant, when there is memory for them.

The expected size of a response, estimated from the last one for the same namespace, is charged as outgoing memory (`egress`) before
it is built; once it is built, what the peer has not read is charged instead. So a client cannot make the broker build responses
that it does not read: the next one waits, and is refused with a retryable error after a long wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.runtime.memory_turns import MemoryTurns
from messaging.broker.runtime.wire.outbound import OutboundBuffer

MADE_MAX = 2  # at a time, one of each tenant
EXPECTED_BYTES = 64 << 10  # estimate for the first listing of a namespace
NAME_BYTES = 64  # overhead per name in addition to its text: it is an object until it is encoded
SIZES_KEPT = 1000  # namespaces


class Listings:
    def __init__(self) -> None:
        self.made = 0
        self._turns = MemoryTurns(MADE_MAX)
        self._sizes: OrderedDict[str, int] = OrderedDict()

    @asynccontextmanager
    async def room(self, account: MemoryAccount, out: OutboundBuffer, namespace: str) -> AsyncIterator[None]:
        """A listing is built and sent inside this context. Raises `NotReady` if there is no memory for a while, or the peer is
        gone."""
        expected = self._sizes.get(namespace, EXPECTED_BYTES)
        async with self._turns.turn(account, out.tenant, expected, out.takes_answers):
            yield
            self.made += 1
            out.count()

    @asynccontextmanager
    async def local_room(self, account: MemoryAccount, tenant: str, namespace: str) -> AsyncIterator[None]:
        """The same for a listing that stays here."""
        async with self._turns.turn(account, tenant, self._sizes.get(namespace, EXPECTED_BYTES)):
            yield
            self.made += 1

    def took(self, namespace: str, names: list[str]) -> None:
        """Records the actual size of a listing, for the next estimate."""
        self._sizes.pop(namespace, None)
        self._sizes[namespace] = max(EXPECTED_BYTES, sum(map(len, names)) + NAME_BYTES * len(names))
        if len(self._sizes) > SIZES_KEPT:
            del self._sizes[next(iter(self._sizes))]
