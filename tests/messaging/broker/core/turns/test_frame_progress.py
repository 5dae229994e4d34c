"""Which frame comes too slowly."""

from __future__ import annotations

import pytest

from messaging.broker.core.turns.frame_progress import WINDOW_BYTES, FrameProgress, too_slow

LARGE = 5 << 20


@pytest.mark.parametrize(
    ("before", "now", "slow"),
    [
        (None, FrameProgress(1, 10, LARGE), False),  # it has just begun
        (FrameProgress(1, 10, LARGE), None, False),  # it is there
        (FrameProgress(1, 10, LARGE), FrameProgress(2, 10, LARGE), False),  # another one
        (FrameProgress(1, 10, LARGE), FrameProgress(1, 10, LARGE), True),
        (FrameProgress(1, 10, LARGE), FrameProgress(1, 10 + WINDOW_BYTES - 1, LARGE), True),
        (FrameProgress(1, 10, LARGE), FrameProgress(1, 10 + WINDOW_BYTES, LARGE), False),
        (FrameProgress(1, 10, 100), FrameProgress(1, 99, 100), True),  # a small one has to be there
        (FrameProgress(1, 3, 8), FrameProgress(1, 3, 8), True),  # not even its length is
    ],
)
def test_a_frame_goes_on_or_its_peer_is_ended(before: FrameProgress | None, now: FrameProgress | None, slow: bool) -> None:
    assert too_slow(before, now) is slow
