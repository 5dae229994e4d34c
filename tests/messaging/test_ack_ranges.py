"""Acknowledged entries as text: what is written is read again, and no more than there is room for."""

from __future__ import annotations

import random

import pytest

from messaging.ack_ranges import AckRange, kept_ranges, ranges_of_text
from messaging.errors import InvalidValue


def test_it_reads_as_it_is_written() -> None:
    ranges = [AckRange(12, 9, 20), AckRange(12, 25, 25), AckRange(13, 0, 4)]
    kept = kept_ranges(ranges)
    assert kept == ("12:9-20,25;13:0-4", 18) and ranges_of_text(kept.text) == tuple(ranges)
    assert kept_ranges([]) == ("", 0) and ranges_of_text("") == ()


def test_what_has_no_room_is_left_out_from_there_on() -> None:
    random.seed(1)
    starts = sorted(random.sample(range(0, 1 << 31, 10), 1_000))
    ranges = [AckRange(7 + index // 400, start, start + index % 7) for index, start in enumerate(starts)]
    kept = kept_ranges(ranges, 500)
    read = ranges_of_text(kept.text)
    assert len(kept.text) <= 500 and read == tuple(ranges[: len(read)]) and kept.entries == sum(each.entries for each in read)
    assert len(kept_ranges(ranges[: len(read) + 1], 500).text) == len(kept.text)


def test_no_more_is_looked_at_than_fits() -> None:
    looked = 0

    def endless() -> object:
        nonlocal looked
        while True:
            looked += 1
            yield AckRange(1, looked * 2, looked * 2)

    kept = kept_ranges(endless(), 100)  # type: ignore[arg-type]
    assert looked == len(ranges_of_text(kept.text)) + 1


@pytest.mark.parametrize("text", ["12", "12:", ":1", "12:1-", "12:a", "12:1;", "12:5-4", "-1:1", f"{1 << 63}:1", "12:1 "])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        ranges_of_text(text)
