"""How many of something each tenant has, and which has most, for ceilings of the platform. Pure; each step takes constant time."""

from __future__ import annotations


class TenantCounts:
    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}
        self._with_count: dict[int, dict[str, None]] = {}  # count -> the tenants that have as many; never empty
        self._largest = 0

    def of(self, tenant: str) -> int:
        return self._counts.get(tenant, 0)

    def largest(self) -> tuple[str, int]:
        """The tenant that has most, and how many; "" and 0 if there are none."""
        return (next(iter(self._with_count[self._largest])), self._largest) if self._largest else ("", 0)

    def add(self, tenant: str, change: int) -> None:
        """`change`: 1 or -1."""
        before = self._counts.pop(tenant, 0)
        after = before + change
        self.total += change
        if before:
            del self._with_count[before][tenant]
        if after:
            self._counts[tenant] = after
            self._with_count.setdefault(after, {})[tenant] = None
        if before and not self._with_count[before]:
            del self._with_count[before]
        if after > self._largest or self._largest not in self._with_count:
            self._largest = after  # by one at a time, so that none lies between
