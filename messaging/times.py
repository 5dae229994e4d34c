"""Times as texts. No clock is asked here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_MS_MAX = 253_402_300_799_999  # the last millisecond of the year 9999


def time_text(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, as Pulsar writes times. Producers' clocks may say anything: a time that no calendar has
    is shown as the nearest one that it has."""
    moment = EPOCH + timedelta(milliseconds=min(max(at_ms, 0), TIME_MS_MAX))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
