"""Whether a frame that is still coming comes fast enough: a peer that begins one and hardly goes on is ended. Pure.

Looked at once in a window. What was there at the last look has to have ended since, or to have gone on by so much that the peer has
a rate with which anybody can live: 16 KiB a second.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_S = 10.0
WINDOW_BYTES = 160 << 10  # of one frame in a window, or all that was missing


class FrameProgress(NamedTuple):
    """`number` tells the frames of one connection apart; `have_bytes` of `need_bytes` are here."""

    number: int
    have_bytes: int
    need_bytes: int


def too_slow(before: FrameProgress | None, now: FrameProgress | None) -> bool:
    """`before` was seen one window ago; None: no frame was under way, or we were the ones who did not read."""
    if before is None or now is None or before.number != now.number:
        return False
    return now.have_bytes - before.have_bytes < min(WINDOW_BYTES, before.need_bytes - before.have_bytes)
