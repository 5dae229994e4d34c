"""The memory that one WebSocket holds of the broker's budget."""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.memory.ingress_limiter import IngressLimiter, PublishQuota
from messaging.broker.core.memory.memory_limiter import MemoryAccount


class TenantMemory:
    """One tenant's use of an account: what is queued for a consumer until its peer takes it."""

    __slots__ = ("_account", "_tenant")

    def __init__(self, account: MemoryAccount, tenant: str) -> None:
        self._account = account
        self._tenant = tenant

    @property
    def share(self) -> int:
        """How many more bytes may be queued."""
        return self._account.share(self._tenant)

    def take(self, size: int) -> None:
        if size:
            self._account.take(self._tenant, size)

    def give(self, size: int) -> None:
        if size:
            self._account.give(self._tenant, size)


class MemoryReservation:
    """An amount that grows and shrinks; the account is charged with the difference."""

    __slots__ = ("_memory", "size_bytes")

    def __init__(self, memory: TenantMemory) -> None:
        self._memory = memory
        self.size_bytes = 0

    @property
    def room(self) -> bool:
        return self._memory.share > 0

    def set(self, size: int) -> None:
        change, self.size_bytes = size - self.size_bytes, size
        self._memory.take(max(0, change))
        self._memory.give(max(0, -change))


class MessageThrottle:
    """An incoming message is charged with the largest possible size, because its size is unknown until it is complete, and waits
    for its turn if memory is short."""

    __slots__ = ("_bytes_max", "_ingress_limiter", "_quota")

    def __init__(self, ingress_limiter: IngressLimiter, tenant: str, bytes_max: int, on_resume: Callable[[], None]) -> None:
        self._ingress_limiter = ingress_limiter
        self._quota = PublishQuota(tenant, on_resume)
        self._bytes_max = bytes_max

    def begin(self) -> bool:
        """True: do not read the rest before `on_resume` is called."""
        return self._ingress_limiter.begin(self._quota, self._bytes_max)

    def end(self) -> None:
        self._ingress_limiter.frame_arrived(self._quota)

    def leave(self) -> None:
        self._ingress_limiter.leave(self._quota)


class SessionThrottle:
    """What one producer's frames hold until they are answered. `on_resume` is called when reading may continue after a pause."""

    __slots__ = ("_ingress_limiter", "_quota")

    def __init__(self, ingress_limiter: IngressLimiter, tenant: str, on_resume: Callable[[], None]) -> None:
        self._ingress_limiter = ingress_limiter
        self._quota = PublishQuota(tenant, on_resume)

    @property
    def paused(self) -> bool:
        return self._quota.paused

    def take(self, size: int) -> None:
        if size:
            self._ingress_limiter.take(self._quota, size)

    def give(self, size: int) -> None:
        if size and not self._quota.left:
            self._ingress_limiter.give(self._quota, size)

    def leave(self) -> None:
        """The connection is closed, and pending responses are dropped. Idempotent."""
        self.give(self._quota.held_bytes)
        self._ingress_limiter.leave(self._quota)
