"""Limits how much producers may have in flight: pauses reading from those that hold too much. Pure.

Each connection or WebSocket has a `PublishQuota`. It holds the entries that it sent until they are durable, and a large frame
from its first byte. A quota that holds something resumes when enough of it is released. One that holds nothing waits only if its
tenant, or all tenants together, hold too much, and is resumed in turn as others release memory. So nobody waits for memory that
only they themselves could free.
"""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.fairness.queue import FairQueue

FRAMES_SHARE = 4  # 1/4 of the account, half of what a tenant may hold, is for frames that are still arriving
PARKED_BYTES_MAX = 4 << 20  # per quota, that wait for rate limits
PARKED_SHARE = 8  # 1/8 of the account is for what waits for rate limits, per tenant
QUOTA_BYTES_MAX = 8 << 20  # per quota; above it reading pauses however much memory is free


class PublishQuota:
    """What one connection has in flight. While `paused`, nothing is read from it; `resume` is called when reading may continue.
    `begun_bytes` belong to a large frame that is arriving, `wanted_bytes` to one that waits to start; `parked_bytes` wait for rate
    limits, and while they are `parked_too_much` nothing more is read."""

    __slots__ = (
        "begun_bytes",
        "held_bytes",
        "left",
        "parked_bytes",
        "parked_too_much",
        "paused",
        "resume",
        "tenant",
        "wanted_bytes",
    )

    def __init__(self, tenant: str, resume: Callable[[], None]) -> None:
        self.tenant = tenant
        self.resume = resume
        self.held_bytes = 0
        self.begun_bytes = 0
        self.parked_bytes = 0
        self.parked_too_much = False
        self.wanted_bytes = 0
        self.paused = False
        self.left = False


class IngressLimiter:
    """Decides which connections are read. The callers pause themselves when told so; whoever releases memory resumes those that may
    continue."""

    def __init__(self, account: MemoryAccount) -> None:
        self.account = account
        self.paused = 0  # quotas
        self._begun_bytes: dict[str, int] = {}  # of frames that are still arriving, by tenant
        self.parked_too_much = 0  # quotas
        self._parked_bytes: dict[str, int] = {}  # by tenant
        self._waiting: FairQueue[PublishQuota] = FairQueue()  # those that hold nothing and are resumed only by others

    def take(self, quota: PublishQuota, size: int) -> bool:
        """`quota` received `size` bytes. Returns True if it must pause reading until `resume`."""
        quota.held_bytes += size
        self.account.take(quota.tenant, size)
        return not quota.left and self._over(quota, 1) and self._pause(quota)

    def give(self, quota: PublishQuota, size: int) -> None:
        """`size` bytes of `quota` are durable or were refused."""
        quota.held_bytes -= size
        self.account.give(quota.tenant, size)
        if self.paused:
            self._resume_if_allowed(quota)

    def begin(self, quota: PublishQuota, size: int) -> bool:
        """A large frame of `size` bytes starts arriving and is counted from now on. True: reading must pause until it fits."""
        if self._frame_fits(quota.tenant, size):
            self._begun(quota, size)
            return False
        quota.wanted_bytes = size
        self._waiting.push(quota.tenant, quota)
        return self._pause(quota)

    def frame_arrived(self, quota: PublishQuota) -> None:
        """The large frame is complete and is counted by its contents from now on."""
        size, quota.begun_bytes = quota.begun_bytes, 0
        if size:
            self._count_begun(quota.tenant, -size)
            self.give(quota, size)

    def park(self, quota: PublishQuota, size: int) -> bool:
        """`size` bytes of `quota`, which it holds or is about to `take`, wait for rate limits. Returns True if it must pause
        reading until `unpark` says otherwise: it waits for its own messages only, so it always resumes."""
        quota.parked_bytes += size
        of_tenant = self._parked_bytes[quota.tenant] = self._parked_bytes.get(quota.tenant, 0) + size
        if quota.left or quota.parked_too_much:
            return False
        too_much = quota.parked_bytes > PARKED_BYTES_MAX or of_tenant * PARKED_SHARE > self.account.limit_bytes
        self.parked_too_much += too_much
        quota.parked_too_much = too_much
        return too_much

    def unpark(self, quota: PublishQuota, size: int) -> bool:
        """Returns True if reading may resume as far as rate limits go."""
        quota.parked_bytes -= size
        of_tenant = self._parked_bytes.pop(quota.tenant) - size
        if of_tenant:
            self._parked_bytes[quota.tenant] = of_tenant
        if not quota.parked_too_much:
            return False
        little = 2 * quota.parked_bytes <= PARKED_BYTES_MAX and of_tenant * PARKED_SHARE <= self.account.limit_bytes
        if not little and quota.parked_bytes:
            return False
        self._parked_little(quota)
        return not quota.left

    @property
    def parked_bytes(self) -> int:
        """All that waits for rate limits."""
        return sum(self._parked_bytes.values())

    def _parked_little(self, quota: PublishQuota) -> None:
        self.parked_too_much -= quota.parked_too_much
        quota.parked_too_much = False

    def leave(self, quota: PublishQuota) -> None:
        """`quota` is closed. The entries that it sent are still released by `give`. Idempotent."""
        quota.left = True
        self._parked_little(quota)
        quota.wanted_bytes = 0
        if quota.paused:
            quota.paused = False
            self.paused -= 1
            self._waiting.discard(quota.tenant, quota)
        self.frame_arrived(quota)

    def _pause(self, quota: PublishQuota) -> bool:
        if quota.paused:
            return False
        quota.paused = True
        self.paused += 1
        return True

    def _over(self, quota: PublishQuota, times: int) -> bool:
        """Whether ``times * held`` is too much for the quota, or its tenant holds too much."""
        account = self.account
        left = account.limit_bytes - account.used_bytes
        bytes_held = times * quota.held_bytes
        return bytes_held > QUOTA_BYTES_MAX or bytes_held > left or account.tenants.get(quota.tenant, 0) > left

    def _frame_fits(self, tenant: str, size: int) -> bool:
        """Frames that are still coming have a part of what the tenant may hold: the peers that sent whole messages never wait for
        one that has not sent its message yet."""
        begun = self._begun_bytes.get(tenant, 0)
        if begun and (begun + size) * FRAMES_SHARE > self.account.limit_bytes:
            return False
        return self.account.allows(tenant, size)

    def _count_begun(self, tenant: str, change: int) -> None:
        left = self._begun_bytes.get(tenant, 0) + change
        if left:
            self._begun_bytes[tenant] = left
        else:
            del self._begun_bytes[tenant]

    def _begun(self, quota: PublishQuota, size: int) -> None:
        quota.begun_bytes = size
        self._count_begun(quota.tenant, size)
        quota.held_bytes += size
        self.account.take(quota.tenant, size)

    def _resume_if_allowed(self, quota: PublishQuota) -> None:
        if quota.paused and not quota.wanted_bytes:
            if not self._over(quota, 2):
                self._resume(quota)
            elif not quota.held_bytes:
                self._waiting.push(quota.tenant, quota)
        # One at a time while memory is short, because the size of their next read is unknown; all of them once half is free.
        while self._waiting:
            following = self._waiting.pop(self._fits)
            if following is None:
                return
            self._resume(following)
            if self.account.used_bytes * 2 > self.account.limit_bytes:
                return

    def _fits(self, tenant: str, quota: PublishQuota) -> bool:
        if quota.wanted_bytes:
            return self._frame_fits(tenant, quota.wanted_bytes)
        return self.account.allows(tenant, 1)

    def _resume(self, quota: PublishQuota) -> None:
        quota.paused = False
        self.paused -= 1
        self._waiting.discard(quota.tenant, quota)
        wanted, quota.wanted_bytes = quota.wanted_bytes, 0
        if wanted:
            self._begun(quota, wanted)
        quota.resume()
