"""Which entries are acknowledged one by one, as text: it is kept beside a position, so that whoever goes back there finds it again.

Ledgers are parted by a semicolon, each is its id, a colon, and its ranges parted by commas: 12:9-20,25;13:0-4. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from messaging.errors import InvalidValue

TEXT_BYTES_MAX = 2_000  # of one cursor: about 300 ranges
_LEDGER = re.compile(r"(\d{1,19}):(\d{1,10}(?:-\d{1,10})?(?:,\d{1,10}(?:-\d{1,10})?)*)")


class AckRange(NamedTuple):
    """Entries `first` to `last`, both included, of a ledger."""

    ledger_id: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


class AckRangesText(NamedTuple):
    """The text of the first ranges, as many as fit, and how many entries they have."""

    text: str
    entries: int


def kept_ranges(ranges: Iterable[AckRange], bytes_max: int = TEXT_BYTES_MAX) -> AckRangesText:
    """`ranges` in the order of their positions; it is not read further than the text goes."""
    text, entries, ledger_id = "", 0, -1
    for each in ranges:
        numbers = str(each.first) if each.first == each.last else f"{each.first}-{each.last}"
        part = f",{numbers}" if each.ledger_id == ledger_id else f"{';' if text else ''}{each.ledger_id}:{numbers}"
        if len(text) + len(part) > bytes_max:
            break
        text, entries, ledger_id = text + part, entries + each.entries, each.ledger_id
    return AckRangesText(text, entries)


def ranges_of_text(text: str) -> tuple[AckRange, ...]:
    """Raises `InvalidValue` for what `kept_ranges` did not write."""
    ranges = []
    for ledger in text.split(";") if text else ():
        match = _LEDGER.fullmatch(ledger)
        if match is None:
            raise InvalidValue(f"{ledger[:80]!r} is no list of acknowledged entries: give ledger:first-last, as 12:9-20,25")
        for numbers in match[2].split(","):
            first, _, last = numbers.partition("-")
            ranges.append(AckRange(int(match[1]), int(first), int(last or first)))
    if any(each.first > each.last or each.ledger_id >= 1 << 63 for each in ranges):
        raise InvalidValue("a range of acknowledged entries ends before it begins, or names a ledger that cannot be")
    return tuple(ranges)
