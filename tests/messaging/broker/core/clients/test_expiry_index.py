"""What ends next is told once, and what is noted again and again takes no more room for it."""

from __future__ import annotations

from messaging.broker.core.clients.expiry_index import OUTDATED_MAX, ExpiryIndex


def test_each_name_is_due_once_by_the_end_that_was_noted_last() -> None:
    ends = ExpiryIndex()
    for name, end_ms in (("a", 10), ("b", 20), ("a", 30), ("c", 15), ("c", 0), ("b", 20)):
        ends.note(name, end_ms)
    assert ends.due(9) == ends.due(19) == set()
    assert ends.due(20) == {"b"}
    assert ends.due(30) == {"a"}
    assert ends.due(1_000) == set()


def test_an_end_that_is_changed_again_and_again_takes_the_room_of_one() -> None:
    ends = ExpiryIndex()
    ends.note("other", 5)
    for end_ms in range(1_000_000, 1_010_000):
        ends.note("renewed", end_ms)
        assert len(ends) <= 2 * 2 + OUTDATED_MAX
    assert ends.due(5) == {"other"}
    assert ends.due(1_009_998) == set()
    assert ends.due(1_009_999) == {"renewed"}
