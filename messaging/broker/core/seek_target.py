"""Where a seek moves a subscription. Pure."""

from __future__ import annotations

from typing import NamedTuple

from messaging.ack_ranges import AckRange
from messaging.storage.ledger_store import EARLIEST, Position


class Replayed(NamedTuple):
    """In place of all that: the entries behind `after` up to `last` are not acknowledged any more, and everything else stays."""

    after: Position
    last: Position


class SeekTarget(NamedTuple):
    """Reading begins after `mark_delete`; of the batch at `entry`, if there are `words`, only with the messages that they leave
    unacknowledged (ack set). Of what comes after it, `acknowledged` counts as that."""

    mark_delete: Position
    entry: Position = EARLIEST
    words: tuple[int, ...] = ()
    acknowledged: tuple[AckRange, ...] = ()
    replayed: Replayed | None = None
