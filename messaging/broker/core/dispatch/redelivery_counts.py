"""How often clients asked for entries again. Pure.

The counts of a ledger are kept as the binary digits of all of them: one bitmap for each digit, with the entries whose count has it.
Counting, comparing and forgetting any number of entries is then a few operations on bitmaps, and a count takes some bits of memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ENTRY_IDS, bitmap_bytes
from messaging.storage.ledger_store import Position

DIGITS_MAX = 31  # clients read a count as a number of 32 bits with a sign

Digits = list[BitMap]  # the lowest first; the highest is not empty


class RedeliveryCounts:
    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, Digits] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    @property
    def memory_bytes(self) -> int:
        return sum(bitmap_bytes(digit) for digits in self._ledgers.values() for digit in digits)

    def raise_by_one(self, ledger_id: int, entries: BitMap) -> None:
        digits = self._ledgers.setdefault(ledger_id, [])
        carried = entries
        for at, digit in enumerate(digits):
            if not carried:
                break
            digits[at], carried = digit ^ carried, digit & carried
        if carried and len(digits) < DIGITS_MAX:
            digits.append(carried.copy())
        self._shorten(ledger_id, digits)

    def entries_from(self, digit: int) -> int:
        """How many entries were counted 2 ** `digit` times and more."""
        return sum(len(BitMap.union(*digits[digit:])) for digits in self._ledgers.values() if len(digits) > digit)

    def of(self, position: Position) -> int:
        return sum((position.entry_id in digit) << at for at, digit in enumerate(self._ledgers.get(position.ledger_id, ())))

    def of_each(self, ledger_id: int, entries: Iterable[int]) -> list[int] | None:
        """The count of each of `entries`; None where all are 0."""
        digits = self._ledgers.get(ledger_id)
        if digits is None:
            return None
        asked = BitMap(entries)
        counts: dict[int, int] = {}
        for at, digit in enumerate(digits):
            for entry in digit & asked:
                counts[entry] = counts.get(entry, 0) + (1 << at)
        return [counts.get(entry, 0) for entry in entries] if counts else None

    def at_most_in(self, ledger_id: int, first: int, last: int) -> int:
        """No more of the entries `first`..`last` than that have a count."""
        return sum(digit.range_cardinality(first, last + 1) for digit in self._ledgers.get(ledger_id, ()))

    def above(self, ledger_id: int, entries: BitMap, limit: int) -> BitMap:
        """Those of `entries` with a count of more than `limit`."""
        digits = self._ledgers.get(ledger_id)
        if digits is None or limit >> len(digits):  # no count has so many digits
            return BitMap()
        above, equal = BitMap(), entries
        for at in reversed(range(len(digits))):
            if limit >> at & 1:
                equal = equal & digits[at]
            else:
                above |= equal & digits[at]
                equal = equal - digits[at]
        return above

    def forget(self, ledger_id: int, entries: BitMap) -> None:
        digits = self._ledgers.get(ledger_id)
        if digits is not None:
            for digit in digits:
                digit -= entries
            self._shorten(ledger_id, digits)

    def forget_range(self, ledger_id: int, first: int, last: int) -> None:
        digits = self._ledgers.get(ledger_id)
        if digits is not None:
            for digit in digits:
                digit.remove_range(first, last + 1)
            self._shorten(ledger_id, digits)

    def forget_up_to(self, mark: Position) -> None:
        for ledger_id in [counted for counted in self._ledgers if counted <= mark.ledger_id]:
            self.forget_range(ledger_id, 0, mark.entry_id if ledger_id == mark.ledger_id else ENTRY_IDS - 1)

    def clear(self) -> None:
        self._ledgers.clear()

    def _shorten(self, ledger_id: int, digits: Digits) -> None:
        while digits and not digits[-1]:
            digits.pop()
        if not digits:
            del self._ledgers[ledger_id]
