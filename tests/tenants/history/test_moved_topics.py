"""History of topics that brokers take from one another: what one held before is not added to what the other holds now."""

from __future__ import annotations

import pytest

from messaging.history.cells import Cell
from messaging.history.points import COLUMNS, HOUR_MS, MINUTE_MS, Point, pack_all, values_of
from tenants.history.keys import series_key
from tenants.history.known import COVERED
from tenants.history.reading import Subject, read
from tenants.history.writing import make_hours
from tenants.models import HistoryChunk, HistoryCursor, HistoryKnown, HistorySeries
from tenants.scoping import platform_scope

pytestmark = pytest.mark.django_db
START_MS = 1_000 * HOUR_MS
TOPIC = "persistent://acme/orders/placed"
OF_TOPIC = Subject("u1", "acme/orders", TOPIC)


def told(broker_id: str, backlogs: dict[int, int], *covered: tuple[int, int], topic: str = TOPIC) -> None:
    """`backlogs`: minute -> what was held at its end, with ten messages in it. `covered`: minutes, half-open."""
    HistoryCursor.objects.get_or_create(broker_id=broker_id, defaults={"batch": 1})
    for first, end in covered:
        HistoryKnown.unscoped.create(broker_id=broker_id, kind=COVERED, from_ms=at(first), until_ms=at(end))
    key = series_key("u1", "acme/orders", topic, "", broker_id)
    series = HistorySeries.unscoped.create(key=key, tenant_uid="u1", namespace="acme/orders", topic=topic, broker_id=broker_id)
    points = [
        Point(at(minute), at(minute + 1), values_of(messages_in=10, backlog_entries=backlog))
        for minute, backlog in backlogs.items()
    ]
    HistoryChunk.unscoped.create(series=series, tier=HistoryChunk.MINUTES, start_ms=START_MS, points=pack_all(points, START_MS))


def at(minute: int) -> int:
    return START_MS + minute * MINUTE_MS


def cells(minutes: int) -> list[Cell]:
    with platform_scope():
        return read(OF_TOPIC, START_MS, at(minutes), MINUTE_MS)


def backlogs(found: list[Cell]) -> list[int | None]:
    return [cell.values[COLUMNS.index("backlog_entries")] if cell.held else None for cell in found]


def test_a_topic_that_moved_between_brokers_that_live_holds_what_it_holds_where_it_is() -> None:
    told("broker-1", {0: 100, 1: 200}, (0, 5))
    told("broker-2", {2: 300, 3: 400}, (0, 5))
    found = cells(5)
    assert backlogs(found) == [100, 200, 300, 400, 400]
    assert [cell.known_ms for cell in found] == [MINUTE_MS] * 5


def test_a_topic_that_a_killed_broker_had_is_known_once_another_has_it() -> None:
    """And the time in between is not, though the other one has told everything of it: it did not have the topic."""
    told("broker-1", {0: 100, 1: 200}, (0, 2), (4, 7))  # killed after two minutes, and started again
    told("broker-2", {4: 300, 5: 400}, (0, 7))
    found = cells(7)
    assert backlogs(found) == [100, 200, None, None, 300, 400, 400]
    assert [cell.known_ms for cell in found] == [*[MINUTE_MS] * 2, 0, 0, *[MINUTE_MS] * 3]


def test_an_hour_in_which_a_topic_moved_has_sixty_minutes() -> None:
    """Each broker knows all of the hour, and the rate was half of what it was."""
    told("broker-1", {0: 100, 1: 200}, (0, 120))
    told("broker-2", {2: 300, 3: 400}, (0, 120))
    with platform_scope():
        make_hours(at(120), lambda: None)
        (cell,) = read(OF_TOPIC, START_MS, at(60), HOUR_MS)
    assert (cell.known_ms, cell.values[COLUMNS.index("messages_in")]) == (HOUR_MS, 40)


def test_partitions_of_several_brokers_add_up() -> None:
    told("broker-1", {0: 100, 1: 200}, (0, 3))
    told("broker-2", {0: 30, 1: 40}, (0, 3))
    told("broker-1", {0: 100, 1: 200}, topic=f"{TOPIC}-partition-0")
    told("broker-2", {0: 30, 1: 40}, topic=f"{TOPIC}-partition-1")
    assert backlogs(cells(3)) == [130, 240, 240]
