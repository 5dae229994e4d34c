"""Where a subscription stood before it was moved, as the audit log keeps it: ``12:7``, the mark-delete position; after it, what was
acknowledged one by one behind it, as far as there is room, and how many entries of that are not kept:
``12:7 and 12:9-20,25;13:0-4 and 31 more``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from messaging.adminrpc.subscriptions import AcksBefore, SubscriptionMoved
from tenants.actions.change import VALUE_BYTES_MAX

RANGES_BYTES_MAX = 3_000  # of one record
NAMES_MAX = 64  # of a record whose values are kept one by one where they are too many together
_PLACE = re.compile(r"(-?\d{1,19}):(-?\d{1,19})(?: and ([\d:;,-]+))?(?: and (\d{1,19}) more)?")


class Place(NamedTuple):
    """`acknowledged`: text of `messaging.ack_ranges`. `left_out`: entries that were acknowledged behind it, and are not in that."""

    ledger_id: int
    entry_id: int
    acknowledged: str = ""
    left_out: int = 0

    @property
    def position(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


def recorded_places(answer: SubscriptionMoved) -> dict[str, str]:
    """By topic or partition; "" for a subscription that was not there."""
    names = list(answer.moved)
    plain = sum(len(name) + len(before) + 8 for name, (before, _) in answer.moved.items())
    room = RANGES_BYTES_MAX if len(names) <= NAMES_MAX else max(0, VALUE_BYTES_MAX - plain - 32 * len(names))
    places = {}
    for name, (before, _) in answer.moved.items():
        acks = answer.acknowledged.get(name)
        text, room = (before, room) if acks is None else _with_acks(before, acks, room)
        places[name] = text
    return places


def _with_acks(before: str, acks: AcksBefore, room: int) -> tuple[str, int]:
    left_out = acks.left_out
    text = before
    if acks.ranges and len(acks.ranges) <= room:
        text += f" and {acks.ranges}"
        room -= len(acks.ranges)
    else:
        left_out += acks.entries
    return (f"{text} and {left_out} more" if left_out else text), room


def place_of_text(text: object) -> Place | None:
    """None for what is no place."""
    match = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    return Place(int(match[1]), int(match[2]), match[3] or "", int(match[4] or 0))
