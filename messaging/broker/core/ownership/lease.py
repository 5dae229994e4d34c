"""When a broker renews its session, when it stops for lack of it, and when it may say of others that they are gone."""

from __future__ import annotations

from messaging.storage.ownership import LEASE_MS

RENEW_S = 3.0
MARGIN_S = 2.0
LATE_S = 2 * RENEW_S  # between two renewals: the metadata did not answer meanwhile, or this broker did not run
SETTLES_S = 2 * RENEW_S  # what another broker may need to renew, once the metadata answers again


class Lease:
    """`now_s`: seconds of a clock that never goes back. The lease counts from when a renewal was begun: when the database took it
    is not known, but not before. That it may serve makes nothing safe; that is what fences are for.

    After an outage of the metadata all leases have ended, and who comes first finds the others' so, which are about to be renewed.
    So a broker ends another one for its lease only once its own renewals have gone well for `SETTLES_S`. What did not end until
    then was not renewed: a lease is longer.
    """

    def __init__(self, begun_s: float) -> None:
        self._renewed_s = begun_s
        self._steady_s = begun_s
        self._failed = False

    def renewed(self, begun_s: float, now_s: float) -> None:
        if self._failed or begun_s - self._renewed_s > LATE_S:
            self._steady_s = now_s
        self._failed = False
        self._renewed_s = max(self._renewed_s, begun_s)

    def failed(self) -> None:
        """A renewal was not answered."""
        self._failed = True

    def may_serve(self, now_s: float) -> bool:
        return now_s < self.ends_s

    def may_end_others(self, now_s: float) -> bool:
        """Whose leases have ended, by what is known."""
        return not self._failed and self.may_serve(now_s) and now_s - self._steady_s >= SETTLES_S

    @property
    def renew_s(self) -> float:
        """When to renew next."""
        return self._renewed_s + RENEW_S

    @property
    def ends_s(self) -> float:
        return self._renewed_s + LEASE_MS / 1000 - MARGIN_S
