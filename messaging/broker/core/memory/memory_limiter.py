"""The memory budget of a broker: who holds how much memory, and who may acquire more. Pure.

Seven accounts share the budget. Six have a limit of their own, and these limits together are the budget:

    ingress     5/16        from producers: frames still arriving, entries that are not durable yet
    egress      1/8         to consumers: data that their sockets have not taken, queues of WebSockets
    catch_up    1/4         backlog reads: entries read from storage
    sessions    1/16        kept for clients: names, properties, waiting commands, unanswered requests
    cursors     1/16        individual acknowledgements: bitmaps of entries, ack sets of batches; what consumers hold
    records     3/16        remembered about clients: names and sequence ids for deduplication, events for the audit log,
                            which messages are delayed, and which moves of dead letters a topic has stored

so that no purpose can take the memory of another: a consumer that does not read never stops a producer, and producers that
overload the disk never stop a reader. The seventh, `tail`, is the entry cache. It uses what the others leave, at most half of the
budget, and is evicted as soon as they need the memory. What a store on other servers keeps of its reads is evicted with it.

Within an account tenants share by one rule: nobody acquires more than is left for the others. A single tenant gets half of an
account, and a newcomer finds as much free as the first one had, whatever the first one does.
"""

from __future__ import annotations

from collections.abc import Callable


class MemoryAccount:
    """The memory of one purpose, by tenant. `take` and `give` only count; `share` says how much may be taken. Each costs a few
    dictionary operations, so call them once per block or read, never once per message. Nothing, too, may be taken and given."""

    __slots__ = ("_limiter", "limit_bytes", "name", "tenants", "used_bytes")

    def __init__(self, memory_limiter: MemoryLimiter, name: str, limit_bytes: int) -> None:
        self.name = name
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.tenants: dict[str, int] = {}  # tenants that hold memory
        self._limiter = memory_limiter

    def take(self, tenant: str, size: int) -> None:
        if not size:  # or a tenant would be listed that holds nothing, and struck off by the next one to give back
            return
        self.used_bytes += size
        self.tenants[tenant] = self.tenants.get(tenant, 0) + size
        memory_limiter = self._limiter
        memory_limiter.used_bytes += size
        if memory_limiter.used_bytes > memory_limiter.limit_bytes:
            memory_limiter.shrink_caches()

    def give(self, tenant: str, size: int) -> None:
        """Returns what `tenant` took before."""
        if not size:
            return
        self.used_bytes -= size
        self._limiter.used_bytes -= size
        left = self.tenants[tenant] - size
        if left:
            self.tenants[tenant] = left
        else:
            del self.tenants[tenant]

    def share(self, tenant: str) -> int:
        """How much `tenant` may take now so that it holds no more than is left afterwards. Never negative."""
        left = self.limit_bytes - self.used_bytes - self.tenants.get(tenant, 0)
        return left // 2 if left > 0 else 0

    def allows(self, tenant: str, size: int) -> bool:
        """Whether `tenant` may take `size` now. Something larger than its share is allowed if there is room and the tenant holds
        little else, or if nobody holds anything, so that it is delayed but never blocked."""
        if size <= self.share(tenant) or not self.used_bytes:
            return True
        return self.used_bytes + size <= self.limit_bytes and self.tenants.get(tenant, 0) * 8 <= self.limit_bytes


class MemoryLimiter:
    """All accounts of a broker. Each of `caches` evicts at least so many bytes, as far as it has them; they are asked in turn."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.ingress = MemoryAccount(self, "ingress", limit_bytes * 5 // 16)
        self.egress = MemoryAccount(self, "egress", limit_bytes // 8)
        self.catch_up = MemoryAccount(self, "catch_up", limit_bytes // 4)
        self.sessions = MemoryAccount(self, "sessions", limit_bytes // 16)
        self.cursors = MemoryAccount(self, "cursors", limit_bytes // 16)
        self.records = MemoryAccount(self, "records", limit_bytes * 3 // 16)
        self.tail = MemoryAccount(self, "tail", limit_bytes // 2)
        self.caches: list[Callable[[int], None]] = []

    @property
    def accounts(self) -> tuple[MemoryAccount, ...]:
        return self.ingress, self.egress, self.catch_up, self.sessions, self.cursors, self.records, self.tail

    def shrink_caches(self) -> None:
        for shrink in self.caches:
            if self.used_bytes > self.limit_bytes:
                shrink(self.used_bytes - self.limit_bytes)
