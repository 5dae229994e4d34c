"""Entries that the disk does not return, and for how long: disks fail for a moment, too. Pure: the time is an argument.

An entry counts as lost once it was asked for again and again for `PATIENCE_S` and never came. What nobody asked for is not known to
have failed all the time: of the time between two attempts `GAP_S` count at most. The first time that it comes ends all that.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

PATIENCE_S = 10.0
GAP_S = 5.0  # not less than `DOUBT_S`, in which nobody asks the disk
FORGOTTEN_S = 3600.0  # what fails after so long is a case of its own
ENTRIES_MAX = 4096


class _Failing(NamedTuple):
    last_s: float  # of the last attempt
    failed_s: float  # for so long all attempts failed


class LostEntries:
    __slots__ = ("_count", "_ledgers")

    def __init__(self) -> None:
        self._ledgers: OrderedDict[int, dict[int, _Failing]] = OrderedDict()  # by entry
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def failed(self, ledger_id: int, entry: int, at_s: float) -> bool:
        """An attempt at `at_s` failed, or is told of again. Returns whether the entry counts as lost."""
        entries = self._ledgers.setdefault(ledger_id, {})
        last_s, failed_s = entries.get(entry) or (at_s, 0.0)
        gap_s = max(0.0, at_s - last_s)
        made = _Failing(max(at_s, last_s), failed_s + min(gap_s, GAP_S)) if gap_s < FORGOTTEN_S else _Failing(at_s, 0.0)
        self._count += entry not in entries
        entries[entry] = made
        if self._count > ENTRIES_MAX:
            self._count -= len(self._ledgers.popitem(last=False)[1])
        return made.failed_s >= PATIENCE_S

    def returned(self, ledger_id: int, first: int, stop: int) -> None:
        """The disk returned the entries from `first` to before `stop`."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            return
        for entry in [lost for lost in entries if first <= lost < stop]:
            del entries[entry]
            self._count -= 1
        if not entries:
            del self._ledgers[ledger_id]
