"""How many calls of the admin API a second keys of a tenant may make: its ceiling `tenant_admin_rate_calls`.

Web processes count together, in the cache that they share (one process counts in its own). The count is of windows of `BURST_S`,
and a window may use what the one before it left. A process takes shares of several calls, so that not every call asks the cache;
what is left of a share when its window ends is lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from django.core.cache import cache

from messaging.errors import QuotaExceeded
from messaging.token_bucket import TokenBucket

BURST_S = 10  # calls of so many seconds may come at once
SHARES_A_SECOND = 5  # that a process takes of all calls that are allowed: less is lost with smaller ones
TENANTS_MAX = 10_000  # remembered; the one that called longest ago is forgotten


class Counts(Protocol):
    """As Django's caches have them."""

    def add(self, key: str, value: int, timeout: int) -> bool: ...
    def get(self, key: str, default: int) -> int: ...
    def incr(self, key: str, delta: int) -> int:
        """Raises `ValueError` for a key that is not there."""


class _Calls:
    """Of one tenant: what is allowed here, what is left of shares, and how many came in this second and the one before."""

    __slots__ = ("before", "bucket", "count", "second", "shares", "window")

    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket = bucket
        self.second = self.count = self.before = self.window = self.shares = 0

    def came(self, now_ms: int) -> None:
        self.settle(now_ms)
        self.count += 1

    def settle(self, now_ms: int) -> None:
        second = now_ms // 1000
        if second != self.second:
            self.before = self.count if second == self.second + 1 else 0
            self.second, self.count = second, 0

    def take_share(self, window: int) -> bool:
        if window != self.window or not self.shares:
            return False
        self.shares -= 1
        return True

    def add_shares(self, window: int, shares: int) -> None:
        self.shares = shares + (self.shares if window == self.window else 0)
        self.window = window


class CallRates:
    """Of the tenants that have the ceiling. Thread-safe and bounded. It receives the time as an argument. A call may ask `counts`,
    and never while others wait for the lock."""

    def __init__(self, counts: Counts = cache) -> None:
        self._counts = counts
        self._lock = threading.Lock()
        self._tenants: OrderedDict[str, _Calls] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tenants)

    def take(self, tenant: str, calls_per_s: int, now_ms: int) -> None:
        """Raises `QuotaExceeded`."""
        rate, burst = calls_per_s / 1000, calls_per_s * BURST_S
        window = now_ms // (BURST_S * 1000)
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
            shared = not wait_ms and calls.take_share(window)
            of_late = max(calls.before, calls.count)
        if wait_ms:
            raise QuotaExceeded(
                f"keys of tenant {tenant} made {of_late} calls within a second, and tenant_admin_rate_calls = {calls_per_s}: "
                f"try again in {max(1, round(wait_ms))} ms, or have an administrator of the platform raise it"
            )
        if not shared:
            self._take_shares(tenant, calls, calls_per_s, window, now_ms)

    def _take_shares(self, tenant: str, calls: _Calls, calls_per_s: int, window: int, now_ms: int) -> None:
        """For one call, and for those that follow it. Raises `QuotaExceeded`."""
        wanted = max(1, calls_per_s // SHARES_A_SECOND)
        key = f"admin-calls:{tenant}:{calls_per_s}:"
        at_rate = calls_per_s * BURST_S
        unused = max(0, at_rate - self._counts.get(f"{key}{window - 1}", 0))
        taken = self._count(f"{key}{window}", wanted) - wanted
        granted = min(wanted, at_rate + unused - taken)
        if granted <= 0:
            raise QuotaExceeded(
                f"keys of tenant {tenant} made {at_rate + unused} calls within {BURST_S} s over all web processes, and "
                f"tenant_admin_rate_calls = {calls_per_s}: try again in {(window + 1) * BURST_S * 1000 - now_ms} ms, or have an "
                f"administrator of the platform raise it"
            )
        if granted > 1:
            with self._lock:
                calls.add_shares(window, granted - 1)

    def _count(self, key: str, count: int) -> int:
        self._counts.add(key, 0, 3 * BURST_S)
        try:
            return self._counts.incr(key, count)
        except ValueError:  # it was forgotten between the two lines
            self._counts.add(key, count, 3 * BURST_S)
            return count

    def of_last_second(self, tenant: str, now_ms: int) -> int:
        """How many calls came here, those that were refused included; 0 for a tenant without the ceiling."""
        with self._lock:
            calls = self._tenants.get(tenant)
            if calls is None:
                return 0
            calls.settle(now_ms)
            return calls.before


call_rates = CallRates()
