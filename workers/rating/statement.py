"""What was charged for each line of an invoice, over all documents about it: the invoice, later corrections, credit notes.

A statement is a function of final documents, in the order in which they were issued. Nothing is kept beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.rating.document import CREDIT_NOTE
from workers.rating.money import minor_of

LineKey = tuple[str, str]  # number of the invoice, id of its line
Slice = tuple[int, int]


@dataclass
class LineBalance:
    """Of one line, in minor units. `charged`: with corrections and less credit notes. `taken_back`: slices (above, up to) of what
    the line may come to, in order and apart, that credit notes gave back: no rating of the line charges or gives back those again.

    A line of 10.00 of which a note took 4.00 has the slice from 6.00 to 10.00. Rated 7.00 by less usage it still is 6.00, rated
    5.00 it is 5.00, and rated 12.00 it is 8.00."""

    charged: int = 0
    taken_back: list[Slice] = field(default_factory=list)

    def due(self, rated: int) -> int:
        """What is to be charged in all if usage and plan make it `rated`."""
        return rated - self._inside(rated)

    def absorbed(self, rated: int) -> int:
        """What a rating of `rated` does not give back because notes have done so."""
        return sum(high - low for low, high in self.taken_back) - self._inside(rated)

    def take_back(self, amount: int) -> None:
        """From the top of what is charged."""
        slice_ = self._rated_for(self.charged - amount), self._rated_for(self.charged)
        self.charged -= amount
        outside = [taken for taken in self.taken_back if taken[1] < slice_[0] or taken[0] > slice_[1]]
        touching = [slice_, *(taken for taken in self.taken_back if taken not in outside)]
        self.taken_back = sorted([*outside, (min(low for low, _ in touching), max(high for _, high in touching))])

    def _inside(self, rated: int) -> int:
        return sum(max(0, min(rated, high) - low) for low, high in self.taken_back)

    def _rated_for(self, due: int) -> int:
        """The lowest rating for which so much is due."""
        rated = max(0, due)
        for low, high in self.taken_back:
            if rated <= low:
                break
            rated += high - low
        return rated


@dataclass(frozen=True)
class Statement:
    """`lines`: of each line of each invoice, how much of it is left after notes about that invoice."""

    balances: Mapping[LineKey, LineBalance]
    lines: Mapping[LineKey, int]

    def of(self, number: str) -> dict[str, LineBalance]:
        """Balances of one invoice, by the id of the line; also of those that only corrections have."""
        return {line: balance for (invoice, line), balance in self.balances.items() if invoice == number}

    def left(self, number: str) -> dict[str, int]:
        """What may be taken back of each line of the invoice `number`: never more than was charged for it by all documents
        together. Below 0 for a correction in the customer's favour."""
        return {
            line: amount if amount <= 0 else max(0, min(amount, self.balances[balance_key(number, line)].charged))
            for (invoice, line), amount in self.lines.items()
            if invoice == number
        }


def statement_of(documents: Iterable[Mapping[str, Any]]) -> Statement:
    """`documents`: final ones of an account, in any order."""
    balances: dict[LineKey, LineBalance] = defaultdict(LineBalance)
    lines: dict[LineKey, int] = {}
    for document in sorted(documents, key=issue_order):
        note, number = document["kind"] == CREDIT_NOTE, document["of_invoice"] or document["number"]
        for line in document["lines"]:
            amount = minor_of(line["amount"], document["currency"], line["id"])
            on = number, line["id"]
            balance = balances[balance_key(*on)]
            lines[on] = lines.get(on, 0) + amount
            if note and amount < 0:
                balance.take_back(-amount)
            else:  # also the correction that a note of its invoice took back: it is due again
                balance.charged += amount
    return Statement(balances, lines)


def balance_key(number: str, line: str) -> LineKey:
    """Of a line of the invoice `number`. A correction is of the line that it corrects: `2026-000001/bytes_in@2026-03-01T00`."""
    corrected, slash, name = line.partition("/")
    return (corrected, name) if slash else (number, line)


def issue_order(document: Mapping[str, Any]) -> tuple[int, ...]:
    """Numbers are given in the order of issue: `2026-000017`."""
    return tuple(int(part) for part in document["number"].split("-"))
