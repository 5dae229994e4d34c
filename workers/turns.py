"""Which tenant a task serves next, when it serves one after another. Pure."""

from __future__ import annotations

from collections.abc import Collection


class Turns:
    """The tenant for which least time was spent is next. One that had nothing to do gains nothing by that: it begins level with
    the one of those waiting that had least."""

    def __init__(self) -> None:
        self._spent_s: dict[str, float] = {}  # of tenants that waited when somebody was last chosen

    def next(self, waiting: Collection[str], served: Collection[str] = ()) -> str:
        """One of the tenants `waiting`, of which there is at least one; the first of them, when several have had as little.
        `served`: others, who have their turn at the moment."""
        known = [self._spent_s[tenant] for tenant in waiting if tenant in self._spent_s]
        level = min(known, default=0.0)
        self._spent_s = {tenant: self._spent_s.get(tenant, level) for tenant in (*waiting, *served)}
        return min(waiting, key=self._spent_s.__getitem__)

    def took(self, tenant: str, seconds: float) -> None:
        """So long was spent for a tenant that was chosen."""
        self._spent_s[tenant] = self._spent_s.get(tenant, 0.0) + seconds
