"""The ceiling of the bytes that a tenant has stored on all its topics together. Without one nothing is counted.

What is stored is measured, and what is appended meanwhile counts besides; so the count is never below the truth. It may be above:
when retention deletes something, or while it is measured. So it is measured again every while, and where it refuses. Of several
brokers each tells the others what it has appended (`runtime/ownership/shared_limits.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from weakref import WeakValueDictionary

from messaging.background import BackgroundLoops
from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.runtime.topics.limits.tenant_ceilings import RAISE_IT
from messaging.clock import boottime_ms
from messaging.errors import QuotaExceeded
from messaging.policies.texts import size_text
from messaging.protocol.names import TopicName

POLICY = "max_stored_bytes_per_tenant"
MEASURED_EVERY_MS = 30_000
REFUSED_MEASURES_MS = 1_000  # after the last measurement

Measure = Callable[[str], Awaitable[int]]


class TenantBytes:
    """Of one tenant; shared by the publishers of its topics."""

    __slots__ = (
        "__weakref__",
        "_appended",
        "_measure",
        "_measured",
        "_measured_ms",
        "_measuring",
        "_spawn",
        "appended_here",
        "level",
        "limit",
        "tenant",
    )

    def __init__(self, tenant: str, measure: Measure, spawn: Callable[[Awaitable[None]], asyncio.Task[None]]) -> None:
        self.tenant = tenant
        self.limit, self.level = 0, ""
        self.appended_here = 0  # by this broker, since this object was made
        self._measure = measure
        self._spawn = spawn
        self._measured = 0
        self._appended = 0  # since the last measurement began
        self._measured_ms: int | None = None
        self._measuring: asyncio.Task[None] | None = None

    @property
    def used(self) -> int:
        return self._measured + self._appended

    @property
    def room(self) -> int:
        return self.limit - self.used

    def took(self, size: int) -> None:
        """So much was appended."""
        self.appended_here += size
        self.took_elsewhere(size)

    def took_elsewhere(self, size: int) -> None:
        """So much was appended by another broker."""
        self._appended += size
        if self._measured_ms is None or boottime_ms() - self._measured_ms >= MEASURED_EVERY_MS:
            self._begin()

    def refusal(self, size: int) -> str:
        """Why `size` bytes more are too many; "" where they are not."""
        if self._measured_ms is None:
            self._begin()
        if self.used + size <= self.limit:
            return ""
        if self._measured_ms is not None and boottime_ms() - self._measured_ms >= REFUSED_MEASURES_MS:
            self._begin()
        return (
            f"tenant {self.tenant} has {self.used} bytes stored, and {size} more would exceed {POLICY} = {self.limit} "
            f"({size_text(self.limit)}), set on the {self.level}: shorten retention, let consumers catch up, delete topics, "
            f"{RAISE_IT}"
        )

    async def check(self) -> None:
        """For a producer that opens. Raises `QuotaExceeded`, and what reading the store raises."""
        if self._measured_ms is None or self.refusal(1):
            self._begin()
            if self._measuring is not None:
                await asyncio.wait([self._measuring])
        if why := self.refusal(1):
            raise QuotaExceeded(why)

    def _begin(self) -> None:
        if self._measuring is None:
            self._measuring = self._spawn(self._run())

    async def _run(self) -> None:
        before = self._appended
        try:
            measured = await self._measure(self.tenant)
            self._measured, self._appended = measured, self._appended - before
            self._measured_ms = boottime_ms()
        finally:
            self._measuring = None


class StoredBytes:
    """Of the tenants of one broker that have the ceiling and loaded topics."""

    def __init__(self, policies: EffectivePolicies, measure: Measure, background: BackgroundLoops) -> None:
        self._policies = policies
        self._measure = measure
        self._background = background
        self._tenants: WeakValueDictionary[str, TenantBytes] = WeakValueDictionary()
        self._heard: dict[str, Mapping[str, int]] = {}  # by broker: what it had told last

    def of(self, name: TopicName) -> TenantBytes | None:
        """None: there is no ceiling."""
        limit, level = self._policies.resolved(POLICY, name)
        if not limit:
            return None
        tenant_bytes = self._tenants.get(name.tenant)
        if tenant_bytes is None:
            tenant_bytes = self._tenants[name.tenant] = TenantBytes(name.tenant, self._measure, self._spawned)
        tenant_bytes.limit, tenant_bytes.level = limit, level
        return tenant_bytes

    def appended(self) -> dict[str, int]:
        """What this broker has appended, by tenant: counts that only rise, or begin anew."""
        return {tenant: tenant_bytes.appended_here for tenant, tenant_bytes in self._tenants.items()}

    def hear(self, broker_id: str, appended: Mapping[str, int]) -> None:
        """What another broker tells of its own."""
        before, self._heard[broker_id] = self._heard.get(broker_id), appended
        if before is None:  # what it has appended so far is in what is measured
            return
        for tenant, total in appended.items():
            tenant_bytes, told = self._tenants.get(tenant), before.get(tenant, 0)
            if tenant_bytes is not None and total != told:
                tenant_bytes.took_elsewhere(total - told if total > told else total)

    def _spawned(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return self._background.spawn(work, "measure what a tenant stores")  # type: ignore[arg-type]
