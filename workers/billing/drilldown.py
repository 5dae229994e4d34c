"""From a line of an invoice down: its topics to the cent, its hours, and the usage runs that computed them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from messaging.errors import NotFound
from workers.billing import usage
from workers.billing.models import Invoice
from workers.rating.document import time_of, time_text
from workers.rating.money import minor_of, money_text
from workers.rating.rate import USAGE
from workers.rating.split import split

TOPICS_MAX = 1000


def usage_of_line(invoice: Invoice, line_id: str) -> dict[str, Any]:
    """Raises `NotFound`. Lines that are no usage (fees, corrections) have no hours and topics of their own."""
    line = next((one for one in invoice.document["lines"] if one["id"] == line_id), None)
    if line is None:
        raise NotFound(f"the invoice has no line {line_id[:80]!r}")
    if line["kind"] != USAGE:
        return {"line": line_id, "hours": [], "topics": [], "runs": _runs(set(line.get("runs", ())))}
    start, end, meter = time_of(line["start"]), time_of(line["end"]), line["meter"]
    hours: dict[str, int] = defaultdict(int)
    topics: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in usage.rows_between(invoice.tenant_uid, start, end):
        quantity = row.quantities[meter]
        if quantity:
            hours[time_text(row.hour)] += quantity
            topics[row.namespace][row.topic] += quantity
    runs = {one["hour"]: one["run"] for one in invoice.document["hours"]}
    return {
        "line": line_id,
        "hours": [{"hour": hour, "run": runs.get(hour, ""), "quantity": quantity} for hour, quantity in hours.items()],
        "topics": _topics(line, topics, invoice.currency),
        "runs": _runs({runs[hour] for hour in hours if hour in runs}),
    }


def _topics(line: dict[str, Any], topics: dict[str, dict[str, int]], currency: str) -> list[dict[str, Any]]:
    """The amount of each namespace handed out to its topics."""
    found = []
    for share in line["namespaces"]:
        used = topics.get(share["namespace"], {})
        amounts = split(minor_of(share["amount"], currency, "amount"), used)
        found += [
            {"namespace": share["namespace"], "topic": topic, "quantity": used[topic], "amount": money_text(amount, currency)}
            for topic, amount in amounts.items()
        ]
    return sorted(found, key=lambda one: (-one["quantity"], one["topic"]))[:TOPICS_MAX]


def _runs(run_ids: set[str]) -> list[dict[str, Any]]:
    return [{"run": run, **found} for run, found in sorted(usage.inputs_of(run_ids).items())]
