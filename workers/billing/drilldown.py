"""From a line of an invoice down: its topics to the cent, its hours, and the usage runs that computed them.

What a request reads does not grow with the hours of a topic: totals of an hour were kept when it was billed (`HourDigest`), and
what a topic used on a whole day is in its charge.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from messaging.errors import NotFound
from tenants.scoping import platform_scope
from workers.billing import exact_sums, usage
from workers.billing.models import Charge, HourDigest, Invoice
from workers.rating.document import time_of, time_text
from workers.rating.money import minor_of, money_text
from workers.rating.rate import USAGE
from workers.rating.split import split

TOPICS_MAX = 1000
DAY = timedelta(days=1)
ByTopic = dict[str, dict[str, int]]  # namespace -> topic -> quantity


def usage_of_line(invoice: Invoice, line_id: str) -> dict[str, Any]:
    """Raises `NotFound`. Lines that are no usage (fees, corrections) have no hours and topics of their own."""
    line = next((line for line in invoice.document["lines"] if line["id"] == line_id), None)
    if line is None:
        raise NotFound(f"the invoice has no line {line_id[:80]!r}")
    if line["kind"] != USAGE:
        return {"line": line_id, "hours": [], "topics": [], "topics_left": 0, "runs": _runs(set(line.get("runs", ())))}
    start, end, meter = time_of(line["start"]), time_of(line["end"]), line["meter"]
    runs = {hour["hour"]: hour["run"] for hour in invoice.document["hours"]}
    hours = _hours(invoice.tenant_uid, meter, start, end, runs)
    topics = _topics(line, _by_topic(invoice.tenant_uid, meter, start, end), invoice.currency)
    return {
        "line": line_id,
        "hours": [{"hour": hour, "run": runs.get(hour, ""), "quantity": quantity} for hour, quantity in hours.items()],
        "topics": topics[:TOPICS_MAX],
        "topics_left": max(0, len(topics) - TOPICS_MAX),
        "runs": _runs({runs[hour] for hour in hours if hour in runs}),
    }


def _hours(tenant_uid: str, meter: str, start: datetime, end: datetime, runs: dict[str, str]) -> dict[str, int]:
    """Those with a quantity. An hour whose totals were not kept, or are of another run, is summed from its rows."""
    with platform_scope():
        kept = HourDigest.objects.filter(tenant_uid=tenant_uid, hour__gte=start, hour__lt=end, quantities__isnull=False)
        by_hour = {
            time_text(hour): (quantities or {}).get(meter, 0)
            for hour, run, quantities in kept.values_list("hour", "run_id", "quantities")
            if runs.get(time_text(hour)) == run
        }
    missing = [hour for hour in runs if hour not in by_hour and start <= time_of(hour) < end]
    if missing:
        summed = usage.totals_of_hours(tenant_uid, meter, time_of(min(missing)), time_of(max(missing)))
        by_hour |= {hour: summed.get(time_of(hour), 0) for hour in missing}
    return {hour: quantity for hour, quantity in sorted(by_hour.items()) if quantity}


def _by_topic(tenant_uid: str, meter: str, start: datetime, end: datetime) -> ByTopic:
    """Whole days from the charges, the parts of days in which a price began or ended from the hours."""
    by_topic: ByTopic = defaultdict(lambda: defaultdict(int))
    whole = []
    for begin, finish in usage.days_between(start, end):
        if finish - begin == DAY:
            whole.append(begin.date())
            continue
        index = usage.METER_NAMES.index(meter)
        for used in usage.used_between(tenant_uid, begin, finish):
            if used.quantities[index]:
                by_topic[used.namespace][used.topic] += used.quantities[index]
    if whole:
        with platform_scope():
            rows = Charge.objects.filter(series__tenant_uid=tenant_uid, day__gte=whole[0], day__lte=whole[-1], meter=meter)
        summed = rows.order_by().values_list("series__namespace", "series__topic").annotate(**exact_sums.sums())
        for namespace, topic, *sums in summed:
            by_topic[namespace][topic] += exact_sums.exact(*sums)
    return by_topic


def _topics(line: dict[str, Any], topics: ByTopic, currency: str) -> list[dict[str, Any]]:
    """The amount of each namespace handed out to its topics."""
    rows = []
    for share in line["namespaces"]:
        used = topics.get(share["namespace"], {})
        amounts = split(minor_of(share["amount"], currency, "amount"), used)
        rows += [
            {"namespace": share["namespace"], "topic": topic, "quantity": used[topic], "amount": money_text(amount, currency)}
            for topic, amount in amounts.items()
        ]
    return sorted(rows, key=lambda row: (-row["quantity"], row["topic"]))


def _runs(run_ids: set[str]) -> list[dict[str, Any]]:
    return [{"run": run, **inputs} for run, inputs in sorted(usage.inputs_of(run_ids).items())]
