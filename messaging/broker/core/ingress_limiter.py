"""Whose socket is read: producers are paused where they hold too much, who holds most first, and go on in turn. Pure.

A *source* is whatever brings messages in: a connection or a WebSocket. It holds the entries it sent until they are durable, and
a large frame from its first bytes on. A source that holds something goes on when enough of that is settled; one that holds nothing
waits only where its tenant, or all together, hold too much, and its turn comes with what others give back. So nobody waits for
memory that only the waiting one could free.
"""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.fair_queue import FairQueue
from messaging.broker.core.memory_limiter import MemoryAccount

FRAMES_SHARE = 4  # one part of so many of the account, which is half of what a tenant may hold, is for frames of it still coming
QUOTA_BYTES_MAX = 8 << 20  # held by one source; beyond it reading pauses however much memory there is


class PublishQuota:
    """`paused`: nothing is read from it; `resume` is called when reading goes on. `begun_bytes`: of a large frame that is coming,
    `wanted_bytes`: of one that it waits to begin."""

    __slots__ = ("begun_bytes", "held_bytes", "left", "paused", "resume", "tenant", "wanted_bytes")

    def __init__(self, tenant: str, resume: Callable[[], None]) -> None:
        self.tenant = tenant
        self.resume = resume
        self.held_bytes = 0
        self.begun_bytes = 0
        self.wanted_bytes = 0
        self.paused = False
        self.left = False


class IngressLimiter:
    """Its callers pause; it says when. Everything that gives something back resumes whoever may go on because of that."""

    def __init__(self, account: MemoryAccount) -> None:
        self.account = account
        self.paused = 0  # sources
        self._begun_bytes: dict[str, int] = {}  # of frames that are still coming, by tenant
        self._waiting: FairQueue[PublishQuota] = FairQueue()  # those that nothing of their own will wake

    def take(self, quota: PublishQuota, size: int) -> bool:
        """`quota` brought `size` bytes. True: its reading is to pause, from now on until `resume`."""
        quota.held_bytes += size
        self.account.take(quota.tenant, size)
        return not quota.left and self._over(quota, 1) and self._pause(quota)

    def give(self, quota: PublishQuota, size: int) -> None:
        """`size` bytes of `quota` are durable, or were refused."""
        quota.held_bytes -= size
        self.account.give(quota.tenant, size)
        if self.paused:
            self._go_on(quota)

    def begin(self, quota: PublishQuota, size: int) -> bool:
        """A frame of `size` bytes begins and counts from now on. True: reading is to pause until it fits."""
        if self._frame_fits(quota.tenant, size):
            self._begun(quota, size)
            return False
        quota.wanted_bytes = size
        self._waiting.push(quota.tenant, quota)
        return self._pause(quota)

    def came(self, quota: PublishQuota) -> None:
        """The large frame is there, and counts as what it turns out to be."""
        size, quota.begun_bytes = quota.begun_bytes, 0
        if size:
            self._count_begun(quota.tenant, -size)
            self.give(quota, size)

    def leave(self, quota: PublishQuota) -> None:
        """`quota` is gone. What it brought whole comes back through `give`. Idempotent."""
        quota.left = True
        quota.wanted_bytes = 0
        if quota.paused:
            quota.paused = False
            self.paused -= 1
            self._waiting.discard(quota.tenant, quota)
        self.came(quota)

    def _pause(self, quota: PublishQuota) -> bool:
        if quota.paused:
            return False
        quota.paused = True
        self.paused += 1
        return True

    def _over(self, quota: PublishQuota, times: int) -> bool:
        """Whether ``times * held`` is too much for the source, or its tenant holds too much."""
        account = self.account
        left = account.limit_bytes - account.used_bytes
        held = times * quota.held_bytes
        return held > QUOTA_BYTES_MAX or held > left or account.tenants.get(quota.tenant, 0) > left

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

    def _go_on(self, quota: PublishQuota) -> None:
        if quota.paused and not quota.wanted_bytes:
            if not self._over(quota, 2):
                self._resume(quota)
            elif not quota.held_bytes:
                self._waiting.push(quota.tenant, quota)
        # One at a time while memory is short, since what each will send is not known; all once half of it is free.
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
