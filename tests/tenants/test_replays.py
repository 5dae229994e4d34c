"""Replaying a span: what was published in it comes again, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from messaging.errors import Conflict, InvalidValue
from messaging.protocol.names import parse_topic
from tenants.actions import cursor_moves
from tests.tenants.world import Caller, World

TOPIC = parse_topic("persistent://acme/orders/t")
N = "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/s/reset"


@pytest.fixture
def times(world: World) -> list[int]:
    """Six entries, an hour apart; of each when it was published."""
    world.broker.add(str(TOPIC), "s")
    times = []
    for hour in range(6):
        world.broker.ahead_s = hour * 3_600
        world.broker.publish(str(TOPIC), b"%d" % hour)
        times.append(int(datetime.now(UTC).timestamp() * 1000) + hour * 3_600_000)
        if hour == 2:
            world.broker.roll(str(TOPIC))  # the span reaches over two ledgers
    return times


def waiting(world: World) -> list[int]:
    """Which of the six come."""

    async def of_topic() -> list[int]:
        topic = await world.broker.service.topics.get(TOPIC, create=False)
        cursor, found, number = topic.subscriptions.named("s").cursor, [], 0
        for ledger_id, last in zip(topic.ledger_list.ids, topic.ledger_list.lasts, strict=True):
            for entry_id in range(last + 1):
                if cursor.unacked_count(ledger_id, entry_id, entry_id):
                    found.append(number)
                number += 1
        return found

    return world.broker.run(of_topic())


def published(times: list[int], first: int, behind: int) -> tuple[int, int]:
    return times[first] - 60_000, times[behind] - 60_000


def test_a_span_of_what_was_acknowledged_comes_again_alone(world: World, times: list[int]) -> None:
    olga = world.actor("olga")
    cursor_moves.clear_backlog(olga, TOPIC, "s")
    assert waiting(world) == []
    told = cursor_moves.replay(olga, TOPIC, "s", *published(times, 1, 4), dry_run=True)
    assert (told.again_entries, told.skipped_entries, waiting(world)) == (3, 0, [])
    done = cursor_moves.replay(olga, TOPIC, "s", *published(times, 1, 4))
    assert (done.again_entries, waiting(world)) == (3, [1, 2, 3])
    world.broker.publish(str(TOPIC), b"new")
    assert waiting(world) == [1, 2, 3, 6]
    # And the next span beside it: what waits goes on waiting.
    assert cursor_moves.replay(olga, TOPIC, "s", *published(times, 4, 5)).again_entries == 1
    assert waiting(world) == [1, 2, 3, 4, 6]


def test_what_waits_before_and_behind_the_span_goes_on_waiting(world: World, times: list[int]) -> None:
    olga = world.actor("olga")
    cursor_moves.skip(olga, TOPIC, "s", 1)
    world.broker.acknowledge(str(TOPIC), "s", 1, 2)  # the last two: entries of the second ledger
    assert waiting(world) == [1, 2, 3]
    told = cursor_moves.replay(olga, TOPIC, "s", *published(times, 3, 5), dry_run=True)
    assert told.again_entries == 1
    cursor_moves.replay(olga, TOPIC, "s", *published(times, 3, 5))
    assert waiting(world) == [1, 2, 3, 4]


def test_it_survives_a_restart(world: World, times: list[int]) -> None:
    olga = world.actor("olga")
    cursor_moves.clear_backlog(olga, TOPIC, "s")
    cursor_moves.replay(olga, TOPIC, "s", *published(times, 1, 4))
    world.broker.unload(str(TOPIC))
    assert waiting(world) == [1, 2, 3]


def test_a_span_in_which_nothing_was_published_is_a_conflict(world: World, times: list[int]) -> None:
    with pytest.raises(Conflict, match="nothing that is stored"):
        cursor_moves.replay(world.actor("olga"), TOPIC, "s", times[0] + 60_000, times[0] + 120_000)
    with pytest.raises(InvalidValue, match="until_ms after it"):
        cursor_moves.replay(world.actor("olga"), TOPIC, "s", 5, 5)


def test_over_rest_the_span_is_of_a_reset(world: World, times: list[int], caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    cursor_moves.clear_backlog(world.actor("olga"), TOPIC, "s")
    begin, end = published(times, 1, 4)
    asked = {"publish_time_ms": begin, "publish_until_ms": end}
    assert olga("POST", f"{N}?dry_run=true", asked).json()["affected"]["again_entries"] == 3
    assert waiting(world) == []
    assert olga("POST", N, asked).status_code == 200
    assert waiting(world) == [1, 2, 3]
    refused = olga("POST", N, {"position": "earliest", "publish_until_ms": end})
    assert (refused.status_code, "goes with publish_time_ms" in refused.json()["detail"]) == (400, True)
    assert caller("sam")("POST", N, asked).status_code == 404
