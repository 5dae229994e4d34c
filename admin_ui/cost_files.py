"""Costs as a file: a line for each name and each day or month of it, with the amount that the page cuts for reading."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal

from admin_ui.cost_view import key_names, shown_name
from tenants.text_files import plain_cell
from workers.billing import costs
from workers.billing.models import NANO

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
NAMES_MAX = 10_000  # those that cost most; what is left has a line of its own a step
COLUMNS = ("step", "from_utc", "by", "name", "cost", "currency")


def written(question: costs.Question, form: str) -> str:
    """`cost`: exact, in units of the currency; "" for what had no price. `from_utc`: the first day of the step."""
    lines = io.StringIO()
    if form == "jsonl":
        lines.writelines(json.dumps(dict(zip(COLUMNS, line, strict=True))) + "\n" for line in _lines(question))
        return lines.getvalue()
    writer = csv.writer(lines)
    writer.writerow(COLUMNS)
    writer.writerows([*line[:3], plain_cell(line[3]), *line[4:]] for line in _lines(question))
    return lines.getvalue()


def _lines(question: costs.Question) -> Iterator[tuple[str, ...]]:
    found = costs.ask(question, NAMES_MAX)
    keys = key_names(question, found.names)
    for name in found.names:
        for step in found.steps:
            nano = found.cells.get((name, step))
            if nano is not None:
                cost = f"{Decimal(nano) / NANO:f}" if found.currency else ""
                yield question.step, f"{step:%Y-%m-%d}", question.by, shown_name(name, question.by, keys), cost, found.currency
