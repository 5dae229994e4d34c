"""Usage as lines of text: of each day, by tenant, namespace or topic, in the exact quantities that bills are made of."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta

from tenants.text_files import plain_cell
from workers.billing import usage
from workers.billing.usage import METER_NAMES

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
LEVELS = ("tenant", "namespace", "topic")
COLUMNS = ("day_utc", "hours_computed", "tenant", "namespace", "topic", *METER_NAMES)
DAYS_MAX = 400  # of usage or costs that may be asked for at once
PIECE_CHARACTERS = 64_000
Line = tuple[str | int, ...]


def usage_lines(tenants: Mapping[str, str], first: date, last: date, level: str, form: str) -> Iterator[str]:
    """`tenants`: name -> uid. One line for each day, UTC, and name; a day without usage has none. Quantities are integers in the
    units of the meters; those of all lines sum to those of an invoice, once `hours_computed` is 24: hours that were over when they
    were computed. In pieces of some lines; a day of a tenant at a time is read."""
    piece = io.StringIO()
    writer = csv.writer(piece)
    if form == "csv":
        writer.writerow(COLUMNS)
    for start, end in usage.days_between(_midnight(first), _midnight(last) + timedelta(days=1)):
        for line in _of_day(tenants, start, end, level):
            if form == "csv":
                writer.writerow([plain_cell(each) if isinstance(each, str) else each for each in line])
            else:
                piece.write(json.dumps(dict(zip(COLUMNS, line, strict=True))) + "\n")
            if piece.tell() >= PIECE_CHARACTERS:
                yield piece.getvalue()
                piece.seek(0)
                piece.truncate()
    yield piece.getvalue()


def _of_day(tenants: Mapping[str, str], start: datetime, end: datetime, level: str) -> Iterator[Line]:
    computed = usage.whole_partitions().filter(hour__gte=start, hour__lt=end).count()
    for tenant, uid in sorted(tenants.items()):
        sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(METER_NAMES))
        for used in usage.used_between(uid, start, end):
            namespace = "" if level == "tenant" else used.namespace
            name = (namespace, used.topic if level == "topic" else "")
            sums[name] = [held + quantity for held, quantity in zip(sums[name], used.quantities, strict=True)]
        for (namespace, topic), quantities in sorted(sums.items()):
            if any(quantities):
                yield (f"{start:%Y-%m-%d}", computed, tenant, namespace, topic, *quantities)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
