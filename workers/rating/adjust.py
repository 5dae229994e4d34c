"""What usage that came late changes about an invoice that is final. The invoice stays as it is; the next one has the difference.

A difference for the customer always counts, less what a credit note gave back of the same line before. One against them is forgiven
while all of them together are at most `forgiven`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from workers.rating.rate import ADJUSTMENT, MINIMUM, Line
from workers.rating.statement import LineBalance


def adjustments(
    number: str,
    period: tuple[datetime, datetime],
    balances: Mapping[str, LineBalance],
    lines: Sequence[Line],
    runs: Sequence[str],
    forgiven: int = 0,
) -> list[Line]:
    """`balances`: of the invoice `number`, by the id of the line. `lines`: its period rated anew. `runs`: the usage runs that
    brought the difference. Empty where nothing is to be done."""
    now = {line.id: line for line in lines}
    due = _due(balances, {name: line.amount for name, line in now.items()})
    corrections = []
    for name in sorted(due):
        difference = due[name] - balances.get(name, LineBalance()).charged
        if not difference:
            continue
        line = now.get(name) or Line(name, ADJUSTMENT, name.partition("@")[0], *period, 0)
        corrections.append(
            Line(
                id=f"{number}/{name}",
                kind=ADJUSTMENT,
                title=f"{line.title}, correction of invoice {number}",
                start=line.start,
                end=line.end,
                amount=difference,
                meter=line.meter,
                quantity=line.quantity,
                of_invoice=number,
                runs=tuple(runs),
            )
        )
    return [] if 0 <= sum(line.amount for line in corrections) <= forgiven else corrections


def _due(balances: Mapping[str, LineBalance], rated: Mapping[str, int]) -> dict[str, int]:
    """By line. Less usage raises the line up to the minimum; where a note had given that usage back, this line does not take it
    again."""
    nothing = LineBalance()
    names = set(balances) | set(rated)
    due = {name: balances.get(name, nothing).due(rated.get(name, 0)) for name in names}
    absorbed = sum(balances.get(name, nothing).absorbed(rated.get(name, 0)) for name in names)
    for name in names:
        if name.partition("@")[0] == MINIMUM:
            rise = due[name] - balances.get(name, nothing).charged
            due[name] -= min(absorbed, max(0, rise))
    return due
