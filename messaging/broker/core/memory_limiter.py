"""One budget for all memory of a broker that holds messages: who holds how much, and who may take more. Pure.

Seven accounts share it. Six have a limit of their own, and the limits together are the budget:

    ingress     7/16        sent by producers: frames that are still coming, entries that are not durable yet
    egress      an eighth   on its way to consumers: what their sockets have not taken, queues of WebSockets
    catch_up    a quarter   read from storage for consumers that are behind
    sessions    1/16        kept for clients: names, properties, commands that wait, requests that are not answered yet
    cursors     1/16        what was acknowledged beyond mark-delete positions: bitmaps of entries, ack sets of batches
    records     1/16        remembered of clients: names and sequence ids for deduplication, events for the audit log

so that none of them can take what another needs: a consumer that does not read never stops a producer, and producers who
overrun the disk never stop a reader. The seventh, `tail`, caches the newest entries in what the others leave, at most half the
budget, and gives back at once when they need it.

Within an account tenants are kept apart by one rule: *nobody takes more than is left for the others*. A tenant alone gets half of
an account; a newcomer finds as much as the one who was there first, whatever that one does.
"""

from __future__ import annotations

from collections.abc import Callable


class MemoryAccount:
    """What one use of memory holds, by tenant. `take` and `give` only count; `share` says what may be taken. Each costs a few
    dictionary operations: call them once a block or a read, never once a message."""

    __slots__ = ("_limiter", "limit_bytes", "name", "tenants", "used_bytes")

    def __init__(self, memory_limiter: MemoryLimiter, name: str, limit_bytes: int) -> None:
        self.name = name
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.tenants: dict[str, int] = {}  # only those who hold something
        self._limiter = memory_limiter

    def take(self, tenant: str, size: int) -> None:
        self.used_bytes += size
        self.tenants[tenant] = self.tenants.get(tenant, 0) + size
        memory_limiter = self._limiter
        memory_limiter.used_bytes += size
        if memory_limiter.used_bytes > memory_limiter.limit_bytes:
            memory_limiter.shrink_caches()

    def give(self, tenant: str, size: int) -> None:
        """Gives back what `tenant` took before."""
        self.used_bytes -= size
        self._limiter.used_bytes -= size
        left = self.tenants[tenant] - size
        if left:
            self.tenants[tenant] = left
        else:
            del self.tenants[tenant]

    def share(self, tenant: str) -> int:
        """The most that `tenant` may take now so that afterwards it holds no more than is left. Never below 0."""
        left = self.limit_bytes - self.used_bytes - self.tenants.get(tenant, 0)
        return left // 2 if left > 0 else 0

    def allows(self, tenant: str, size: int) -> bool:
        """Whether `tenant` may take `size` now: within its part, or beyond it where there is room and it holds little else, or
        where nobody holds anything: so what is larger than a part is late, and never stuck."""
        if size <= self.share(tenant) or not self.used_bytes:
            return True
        return self.used_bytes + size <= self.limit_bytes and self.tenants.get(tenant, 0) * 8 <= self.limit_bytes


class MemoryLimiter:
    """`shrink` of a cache gives back at least so many bytes, as far as it has them."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.ingress = MemoryAccount(self, "ingress", limit_bytes * 7 // 16)
        self.egress = MemoryAccount(self, "egress", limit_bytes // 8)
        self.catch_up = MemoryAccount(self, "catch_up", limit_bytes // 4)
        self.sessions = MemoryAccount(self, "sessions", limit_bytes // 16)
        self.cursors = MemoryAccount(self, "cursors", limit_bytes // 16)
        self.records = MemoryAccount(self, "records", limit_bytes // 16)
        self.tail = MemoryAccount(self, "tail", limit_bytes // 2)
        self.shrink: Callable[[int], None] = lambda size: None

    @property
    def accounts(self) -> tuple[MemoryAccount, ...]:
        return self.ingress, self.egress, self.catch_up, self.sessions, self.cursors, self.records, self.tail

    def shrink_caches(self) -> None:
        self.shrink(self.used_bytes - self.limit_bytes)
