"""Points that wait for the control plane: in bounded memory, and one tenant's many push out none of another's."""

from __future__ import annotations

import msgspec

from messaging.adminrpc.history import HistoryPoint, HistorySpan
from messaging.broker.runtime.metering.history_buffer import BATCH_MAX, HistoryBuffer, WaitingHistory


def point(tenant: str, minute: int) -> HistoryPoint:
    return HistoryPoint(tenant, "", "", "", minute, minute + 1, [minute])


def test_what_is_not_acknowledged_comes_again_under_its_number() -> None:
    buffer = HistoryBuffer(1_000)
    buffer.add(point("a", 1))
    buffer.covered(0, 5)
    number, points, spans = buffer.take()
    assert (points, spans) == ([point("a", 1)], [HistorySpan("covered", "", 0, 5)])
    buffer.add(point("a", 2))
    assert buffer.take() == (number, points, spans)
    assert buffer.take(number - 1) == (number, points, spans)
    assert buffer.take(number) == (number + 1, [point("a", 2)], [])
    assert buffer.take(number + 1)[1:] == ([], [])


def test_time_is_told_of_once_all_its_points_are_and_is_continued() -> None:
    buffer = HistoryBuffer(1_000)
    for minute in range(BATCH_MAX + 1):
        buffer.add(point("a", minute))
    buffer.covered(0, 5)
    number, points, spans = buffer.take()
    assert (len(points), spans) == (BATCH_MAX, [])
    number, points, spans = buffer.take(number)
    assert (len(points), spans) == (1, [HistorySpan("covered", "", 0, 5)])
    buffer.covered(5, 9)
    buffer.covered(20, 30)
    number, points, spans = buffer.take(number)
    assert spans == [HistorySpan("covered", "", 5, 9), HistorySpan("covered", "", 20, 30)]


def test_the_tenant_with_most_gives_up_its_oldest_and_that_is_said() -> None:
    buffer = HistoryBuffer(1_000, points_max=10)
    for minute in range(3):
        buffer.add(point("small", minute))
    for minute in range(100):
        buffer.add(point("large", minute))
    buffer.covered(0, 101)
    buffer.behind = {"large": 90}
    number, points, spans = buffer.take()
    assert [each.from_ms for each in points if each.tenant_uid == "small"] == [0, 1, 2]
    assert [each.from_ms for each in points if each.tenant_uid == "large"] == list(range(93, 100))
    assert HistorySpan("lost", "large", 0, 93) in spans
    assert HistorySpan("behind", "large", 90, 90) in spans
    assert buffer.take(number)[1:] == ([], [])


def test_what_is_given_up_of_a_batch_that_was_sent_confirms_nothing_else() -> None:
    buffer = HistoryBuffer(1_000, points_max=4)
    for minute in range(4):
        buffer.add(point("a", minute))
    number, points, _ = buffer.take()
    assert len(points) == 4
    buffer.add(point("a", 4))
    assert [each.from_ms for each in buffer.take(number)[1]] == [4]


def test_what_waits_is_taken_up_by_the_next_run_and_is_not_stored_twice() -> None:
    buffer = HistoryBuffer(1_000)
    buffer.add(point("a", 1))
    buffer.covered(0, 5)
    sent = buffer.take()
    buffer.add(point("a", 6))
    buffer.add(point("b", 6))
    buffer.covered(5, 9)
    kept = msgspec.json.decode(msgspec.json.encode(buffer.close()), type=WaitingHistory)
    assert buffer.take(sent[0])[1:] == ([], []) and len(buffer) == 0, "nobody takes it from the one that stopped"
    following = HistoryBuffer(2_000)
    following.take_up(kept)
    following.add(point("a", 20))
    following.covered(20, 21)
    assert following.take() == sent, "whoever stored it knows the number"
    number, points, spans = following.take(sent[0])
    assert number == sent[0] + 1 and points == [point("a", 6), point("a", 20), point("b", 6)]
    assert spans == [HistorySpan("covered", "", 5, 9), HistorySpan("covered", "", 20, 21)]
    assert following.take(number)[1:] == ([], [])
