"""Which frame comes too slowly."""

from __future__ import annotations

import pytest

from messaging.broker.core.arrivals import WINDOW_BYTES, Arriving, too_slow

LARGE = 5 << 20


@pytest.mark.parametrize(
    ("before", "now", "slow"),
    [
        (None, Arriving(1, 10, LARGE), False),  # it has just begun
        (Arriving(1, 10, LARGE), None, False),  # it is there
        (Arriving(1, 10, LARGE), Arriving(2, 10, LARGE), False),  # another one
        (Arriving(1, 10, LARGE), Arriving(1, 10, LARGE), True),
        (Arriving(1, 10, LARGE), Arriving(1, 10 + WINDOW_BYTES - 1, LARGE), True),
        (Arriving(1, 10, LARGE), Arriving(1, 10 + WINDOW_BYTES, LARGE), False),
        (Arriving(1, 10, 100), Arriving(1, 99, 100), True),  # a small one has to be there
        (Arriving(1, 3, 8), Arriving(1, 3, 8), True),  # not even its length is
    ],
)
def test_a_frame_goes_on_or_its_peer_is_ended(before: Arriving | None, now: Arriving | None, slow: bool) -> None:
    assert too_slow(before, now) is slow
