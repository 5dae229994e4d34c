"""Whether an incoming frame arrives fast enough; a peer that starts one and then stalls is disconnected. Pure.

Checked once per window: a frame that was already arriving at the last check must be complete, or must have progressed by at least
16 KiB a second.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_S = 10.0
WINDOW_BYTES = 160 << 10  # of one frame per window, or the rest of it if that is less


class FrameProgress(NamedTuple):
    """`number` distinguishes the frames of a connection; `have_bytes` of `need_bytes` have arrived."""

    number: int
    have_bytes: int
    need_bytes: int


def too_slow(before: FrameProgress | None, now: FrameProgress | None) -> bool:
    """`before` is the progress one window ago; None if no frame was arriving or we were not reading."""
    if before is None or now is None or before.number != now.number:
        return False
    return now.have_bytes - before.have_bytes < min(WINDOW_BYTES, before.need_bytes - before.have_bytes)
