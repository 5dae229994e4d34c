"""Cells: nothing is filled in that was not seen."""

from __future__ import annotations

from messaging.history.cells import Cell, Source, cells_of, hour_of, hours_at_one, merged
from messaging.history.points import COLUMNS, HOUR_MS, MINUTE_MS, Point, values_of

S = 1000


def point(from_s: int, until_s: int, **values: int) -> Point:
    return Point(from_s * S, until_s * S, values_of(**values))


def minutes(points: list[Point], covered: list[tuple[int, int]], count: int) -> list[Cell]:
    spans = [(start * S, end * S) for start, end in covered]
    return cells_of([Source(points, spans)], spans, 0, count * MINUTE_MS, MINUTE_MS)


def column(cells: list[Cell], name: str) -> list[int]:
    return [cell.values[COLUMNS.index(name)] for cell in cells]


def test_covered_time_without_points_is_at_rest_and_other_time_unknown() -> None:
    cells = minutes([point(0, 60, messages_in=6, backlog_entries=2, oldest_ms=30 * S)], [(0, 120), (240, 300)], 5)
    assert [cell.known_ms // S for cell in cells] == [60, 60, 0, 0, 60]
    assert column(cells, "messages_in") == [6, 0, 0, 0, 0]
    assert [cell.held for cell in cells] == [True, True, False, False, False]
    assert column(cells, "backlog_entries")[:2] == [2, 2]
    assert column(cells, "age_max_ms")[1] == 90 * S


def test_before_the_first_point_nothing_happened_and_nothing_is_known_to_be_held() -> None:
    cells = minutes([point(60, 120, messages_in=1)], [(0, 120)], 2)
    assert [(cell.known_ms // S, cell.held) for cell in cells] == [(60, False), (60, True)]


def test_a_point_that_covers_longer_is_spread_and_adds_up() -> None:
    cells = minutes([point(30, 210, messages_in=10, in_peak=4)], [], 4)
    assert column(cells, "messages_in") == [1, 4, 3, 2]
    assert sum(column(cells, "messages_in")) == 10
    assert [cell.known_ms // S for cell in cells] == [30, 60, 60, 30]
    assert column(cells, "in_peak") == [4, 4, 4, 4]


def test_a_part_of_a_minute_may_be_known() -> None:
    cells = minutes([point(0, 20, messages_in=4)], [(0, 20), (50, 60)], 1)
    assert (cells[0].known_ms // S, cells[0].values[0]) == (30, 4)


def test_a_topic_that_moved_is_followed_at_the_broker_that_told_last() -> None:
    here = Source([point(0, 60, messages_in=1, backlog_entries=5)], [(0, 60 * S)])
    there = Source([point(60, 120, messages_in=2, backlog_entries=7)], [(0, 180 * S)])
    cells = cells_of([here, there], [], 0, 3 * MINUTE_MS, MINUTE_MS)
    assert column(cells, "messages_in") == [1, 2, 0]
    assert column(cells, "backlog_entries") == [5, 7, 7]


def test_time_that_two_brokers_tell_of_is_known_once_and_who_began_later_has_the_topic() -> None:
    """One that stood still, lost the topic to another, and tells of it once it goes on."""
    for resumed_s in (50, 60, 61):
        still = Source([point(0, resumed_s, messages_in=30, backlog_entry_ms=resumed_s * S * 5, backlog_entries=5)], [(0, 120 * S)])
        taken = [point(20, 60, messages_in=40, backlog_entry_ms=40 * S * 9, backlog_entries=9), point(60, 120, backlog_entries=9)]
        for sources in ([still, Source(taken, [(0, 120 * S)])], [Source(taken, [(0, 120 * S)]), still]):
            cells = cells_of(sources, [], 0, 2 * MINUTE_MS, MINUTE_MS)
            assert [(cell.known_ms, cell.held_ms) for cell in cells] == [(MINUTE_MS, MINUTE_MS)] * 2
            assert sum(column(cells, "messages_in")) == 70
            assert column(cells, "backlog_entries") == [9, 9]
            assert column(cells, "backlog_entry_ms")[0] / cells[0].held_ms <= 9


def test_a_broker_whose_clock_was_set_back_carried_both_times() -> None:
    cells = minutes([point(0, 60, messages_in=6), point(0, 60, messages_in=6)], [], 1)
    assert (cells[0].known_ms, column(cells, "messages_in")) == (2 * MINUTE_MS, [12])


def test_a_point_that_begins_a_moment_before_the_end_of_the_one_before_makes_no_minute_longer() -> None:
    """Ends are kept to the second: 60.3 s of a minute were known."""
    points = [Point(-20 * S, 19 * S, values_of()), Point(18_600, 60 * S, values_of(messages_in=6))]
    (cell,) = minutes(points, [], 1)
    assert (cell.known_ms, cell.held_ms, column([cell], "messages_in")) == (MINUTE_MS, MINUTE_MS, [6])


def test_what_a_killed_broker_did_not_tell_between_two_points_of_another_is_unknown() -> None:
    """It took the topic at 20 s, was killed at 50 s, and the first one has it again; that one has told all of its own time."""
    here = Source([point(0, 20, messages_in=5), point(55, 60, messages_in=1)], [(0, 60 * S)])
    killed = Source([], [(-60 * S, 0), (58 * S, 60 * S)])
    (cell,) = cells_of([here, killed], [], 0, MINUTE_MS, MINUTE_MS)
    assert (cell.known_ms, column([cell], "messages_in")) == (25 * S, [6])
    (cell,) = cells_of([here, killed._replace(covered=[(-60 * S, 60 * S)])], [], 0, MINUTE_MS, MINUTE_MS)
    assert cell.known_ms == MINUTE_MS, "one that has told everything did not have it"
    (cell,) = cells_of([here, killed._replace(covered=[(30 * S, 60 * S)])], [], 0, MINUTE_MS, MINUTE_MS)
    assert cell.known_ms == MINUTE_MS, "nor one that was not there yet"


def test_a_broker_that_is_gone_does_not_make_quiet_topics_of_others_unknown() -> None:
    here = Source([point(0, 60, backlog_entries=3), point(36_000, 36_060)], [(0, 36_060 * S)])
    for ended_s in (-7_200, 1_800):  # long before, and while the topic had been quiet for long
        cells = cells_of([here, Source([], [(-9_000 * S, ended_s * S)])], [], 0, 10 * HOUR_MS, HOUR_MS)
        assert {(cell.known_ms, cell.held) for cell in cells} == {(HOUR_MS, True)}


def test_an_hour_that_two_brokers_know_is_an_hour() -> None:
    def hour(known_s: int, **values: int) -> Source:
        return Source([point(3_600 - known_s, 3_600, **values)], [])

    for one, other, known_s in ((3_600, 3_600, 3_600), (1_200, 2_400, 3_600), (600, 1_200, 1_800)):
        sources = hours_at_one([hour(one, messages_in=10, backlog_entries=1), hour(other, messages_in=20, backlog_entries=2)])
        (cell,) = cells_of(sources, [], 0, HOUR_MS, HOUR_MS)
        assert (cell.known_ms // S, column([cell], "messages_in"), column([cell], "backlog_entries")) == (known_s, [30], [2])
    of_minutes = [Source([point(3_480, 3_540), point(3_540, 3_600)], []), Source([point(3_540, 3_600)], [])]
    assert hours_at_one(of_minutes) == of_minutes


def test_parts_add_up_and_one_that_is_unknown_makes_the_whole_so() -> None:
    one = minutes([point(0, 60, messages_in=1, stored_bytes=4)], [(0, 120)], 2)
    other = minutes([point(0, 60, messages_in=2, stored_bytes=3)], [(0, 60)], 2)
    cells = merged([one, other], minutes([], [], 2))
    assert column(cells, "messages_in") == [3, 0]
    assert [cell.known_ms // S for cell in cells] == [60, 0]
    gone = merged([one, [other[0], None]], minutes([], [], 2))
    assert [cell.known_ms // S for cell in gone] == [60, 60]
    before = merged([[None, one[1]], [None, other[1]]], minutes([], [], 2))
    assert [(cell.from_ms, cell.until_ms, cell.known_ms) for cell in before] == [(0, 60 * S, 0), (60 * S, 120 * S, 0)]
    assert [cell.known_ms for cell in merged([], minutes([], [], 2))] == [0, 0]


def test_a_minute_of_one_broker_and_ten_seconds_of_another_are_ten_seconds_of_both() -> None:
    """They were the messages of a minute within ten seconds, and the backlog of both six times over."""
    one = minutes([point(0, 60, messages_in=60, backlog_entry_ms=60 * S * 40, backlog_entries=40)], [], 1)
    other = minutes([point(0, 10, messages_in=5, backlog_entry_ms=10 * S * 2, backlog_entries=2)], [], 1)
    (cell,) = merged([one, other], minutes([], [], 1))
    (backlog_ms,) = column([cell], "backlog_entry_ms")
    assert (cell.known_ms, column([cell], "messages_in")) == (10 * S, [15]) and backlog_ms / cell.held_ms == 42
    ends = [minutes([point(0, until, messages_in=7, backlog_entry_ms=until * S * 40)], [], 1) for until in (60, 59)]
    (cell,) = merged(ends, minutes([], [], 1))
    assert column([cell], "messages_in") == [14], "counts are whole where one was told a moment earlier"
    assert column([cell], "backlog_entry_ms")[0] / cell.held_ms == 80


def test_an_hour_is_as_wide_as_what_is_known_of_it() -> None:
    points = [point(0, 60, messages_in=6, backlog_entries=2), point(1_200, 1_260, messages_in=1, backlog_entries=9)]
    spans = [(0, 600 * S), (1_200 * S, 3_600 * S)]
    cells = cells_of([Source(points, spans)], spans, 0, HOUR_MS, MINUTE_MS)
    hour = hour_of(cells)
    assert hour is not None
    assert (hour.width_ms, hour.until_ms) == (3_000 * S, HOUR_MS)
    assert (hour.value("messages_in"), hour.value("backlog_entries"), hour.value("backlog_max")) == (7, 9, 9)
    assert hour_of(cells_of([], [], 0, HOUR_MS, MINUTE_MS)) is None
