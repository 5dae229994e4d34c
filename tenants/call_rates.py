"""How many calls of the admin API a second keys of a tenant may make: its ceiling `tenant_admin_rate_calls`."""

from __future__ import annotations

import threading
from collections import OrderedDict

from messaging.errors import QuotaExceeded
from messaging.token_bucket import TokenBucket

BURST_S = 10  # calls of so many seconds may come at once
TENANTS_MAX = 10_000  # remembered; the one that called longest ago is forgotten


class _Calls:
    """Of one tenant: what is allowed, and how many came in this second and the one before."""

    __slots__ = ("before", "bucket", "count", "second")

    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket = bucket
        self.second = self.count = self.before = 0

    def came(self, now_ms: int) -> None:
        self.settle(now_ms)
        self.count += 1

    def settle(self, now_ms: int) -> None:
        second = now_ms // 1000
        if second != self.second:
            self.before = self.count if second == self.second + 1 else 0
            self.second, self.count = second, 0


class CallRates:
    """Of the tenants that have the ceiling. Thread-safe and bounded. Pure but for its lock: it receives the time as an argument."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenants: OrderedDict[str, _Calls] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tenants)

    def take(self, tenant: str, calls_per_s: int, now_ms: int) -> None:
        """Raises `QuotaExceeded`."""
        rate, burst = calls_per_s / 1000, calls_per_s * BURST_S
        with self._lock:
            calls = self._tenants.get(tenant) or _Calls(TokenBucket(rate, burst, now_ms))
            self._tenants[tenant] = calls
            self._tenants.move_to_end(tenant)
            if len(self._tenants) > TENANTS_MAX:
                self._tenants.popitem(last=False)
            if calls.bucket.rate != rate:
                calls.bucket.change(rate, burst, now_ms)
            wait_ms = calls.bucket.take(now_ms)
            calls.came(now_ms)
            of_late = max(calls.before, calls.count)
        if wait_ms:
            raise QuotaExceeded(
                f"keys of tenant {tenant} made {of_late} calls within a second, and tenant_admin_rate_calls = {calls_per_s}: "
                f"try again in {max(1, round(wait_ms))} ms, or have an administrator of the platform raise it"
            )

    def of_last_second(self, tenant: str, now_ms: int) -> int:
        """How many calls came, those that were refused included; 0 for a tenant without the ceiling."""
        with self._lock:
            calls = self._tenants.get(tenant)
            if calls is None:
                return 0
            calls.settle(now_ms)
            return calls.before


call_rates = CallRates()
