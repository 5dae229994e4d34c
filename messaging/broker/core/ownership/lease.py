"""When a broker renews its session, and when it stops for lack of it."""

from __future__ import annotations

from messaging.storage.ownership import LEASE_MS

RENEW_S = 3.0
MARGIN_S = 2.0


class Lease:
    """`now_s`: seconds of a clock that never goes back. The lease counts from when a renewal was begun: when the database took it
    is not known, but not before. That it may serve makes nothing safe; that is what fences are for."""

    def __init__(self, begun_s: float) -> None:
        self._renewed_s = begun_s

    def renewed(self, begun_s: float) -> None:
        self._renewed_s = max(self._renewed_s, begun_s)

    def may_serve(self, now_s: float) -> bool:
        return now_s < self.ends_s

    @property
    def renew_s(self) -> float:
        """When to renew next."""
        return self._renewed_s + RENEW_S

    @property
    def ends_s(self) -> float:
        return self._renewed_s + LEASE_MS / 1000 - MARGIN_S
