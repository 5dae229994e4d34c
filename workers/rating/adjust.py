"""What usage that came late changes about an invoice that is final. The invoice stays as it is; the next one has the difference.

A difference for the customer always counts. One against them is forgiven while all of them together are at most `forgiven`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from workers.rating.rate import ADJUSTMENT, Line


def adjustments(
    number: str,
    period: tuple[datetime, datetime],
    billed: Mapping[str, int],
    lines: Sequence[Line],
    runs: Sequence[str],
    forgiven: int = 0,
) -> list[Line]:
    """`billed`: line id -> minor units on the invoice `number` and in its earlier adjustments. `lines`: its period rated anew.
    `runs`: the usage runs that brought the difference. Empty where nothing is to be done."""
    now = {line.id: line for line in lines}
    found = []
    for name in sorted(set(billed) | set(now)):
        line = now.get(name)
        difference = (line.amount if line else 0) - billed.get(name, 0)
        if not difference:
            continue
        if line is None:
            line = Line(name, ADJUSTMENT, name.partition("@")[0], *period, 0)
        title = f"{line.title}, correction of invoice {number}"
        found.append(
            Line(
                id=f"{number}/{name}",
                kind=ADJUSTMENT,
                title=title,
                start=line.start,
                end=line.end,
                amount=difference,
                meter=line.meter,
                quantity=line.quantity,
                of_invoice=number,
                runs=tuple(runs),
            )
        )
    return [] if 0 <= sum(line.amount for line in found) <= forgiven else found
