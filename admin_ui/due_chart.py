"""What comes due when, as columns: the next hour by minutes, the rest of a day by hours, later by days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext
from messaging.adminrpc.delayed import DelayedBucket
from messaging.times import EPOCH, TIME_MS_MAX
from workers.billing.charts import GAP_PART, Bar, Part, bars_of

HEIGHT = 80.0
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True)
class Span:
    """`entries`: of all columns; `highest`: what the top edge stands for."""

    title: str
    columns: tuple[Bar, ...]
    entries: int
    highest: int


def spans(buckets: Sequence[DelayedBucket]) -> list[Span]:
    """Those that have something."""
    lengths_ms = [(bucket, None if bucket.until_ms is None else bucket.until_ms - bucket.from_ms) for bucket in buckets]
    minutes = [bucket for bucket, length_ms in lengths_ms if length_ms is not None and length_ms <= MINUTE_MS]
    hours = [bucket for bucket, length_ms in lengths_ms if length_ms is not None and MINUTE_MS < length_ms <= HOUR_MS]
    later = [bucket for bucket, length_ms in lengths_ms if length_ms is None or length_ms > HOUR_MS]
    parts = (
        (gettext("The next hour, by minutes"), minutes),
        (gettext("The rest of a day, by hours"), hours),
        (gettext("Later, by days"), later),
    )
    return [_span(title, part) for title, part in parts if any(bucket.entries for bucket in part)]


def _span(title: str, buckets: Sequence[DelayedBucket]) -> Span:
    highest = max(bucket.entries for bucket in buckets)
    columns = [[Part(1, bucket.entries, f"{_when(bucket)}: {exact(bucket.entries)}")] for bucket in buckets]
    bars = bars_of(columns, highest, HEIGHT, inset=GAP_PART / 2)
    return Span(title, bars, sum(bucket.entries for bucket in buckets), highest)


def _when(bucket: DelayedBucket) -> str:
    """To the minute."""
    begin = timezone.localtime(EPOCH + timedelta(milliseconds=min(bucket.from_ms, TIME_MS_MAX - DAY_MS)))
    text = f"{begin:%Y-%m-%d %H:%M %Z}"
    return text if bucket.until_ms is not None else gettext("after {time}").format(time=text)
