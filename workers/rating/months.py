"""Which months of an account are still to be billed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from workers.rating.rate import month_of

MONTHS_BACK = 13  # of usage and plans that were there before their charges: a year to compare with


def open_months(
    since: datetime | None, last: datetime | None, drafts: Collection[datetime], finals: Collection[datetime]
) -> list[datetime]:
    """Starts of months, the oldest first: those from `since` (the first usage or plan) to `last`, at most `MONTHS_BACK` of them,
    and every month that has a draft; without those that have a final invoice.

    Usage or none: a draft that nobody brings to its end would hold up all later corrections."""
    months = set(drafts)
    if last is not None:
        at, _ = month_of(last)
        months.add(at)
        for _ in range(MONTHS_BACK - 1):
            if since is None or at <= since:
                break
            at, _ = month_of(at - timedelta(days=1))
            months.add(at)
    return sorted(months - set(finals))
