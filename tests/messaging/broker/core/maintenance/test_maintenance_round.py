"""Rounds over the topics: every topic is reached, however early rounds end."""

from __future__ import annotations

from messaging.broker.core.maintenance.round import PASSED_OVER_MAX, MaintenanceRound, PageRequest

NAMES = [f"persistent://acme/orders/{number:03}" for number in range(25)]
LIMIT = 4


def round_of(turns: MaintenanceRound, pages_max: int = 99, names: list[str] = NAMES) -> list[str]:
    """The topics that a round gives out before it ends, of itself or after so many pages."""
    served, page = turns.begin()
    token = page.token()
    for _ in range(pages_max):
        request = PageRequest.of(token)
        listed = [name for name in names if name > request.after][:LIMIT]
        within, following = turns.page(request, listed, LIMIT)
        served += within
        if following is None:
            break
        token = following.token()
    return served


def test_a_round_gives_out_every_topic_once() -> None:
    turns = MaintenanceRound()
    for _ in range(2):
        assert round_of(turns) == NAMES


def test_rounds_that_end_early_reach_every_topic() -> None:
    turns = MaintenanceRound()
    served = {name for _ in range(12) for name in round_of(turns, 2)}
    assert served == set(NAMES)


def test_a_round_that_continues_another_comes_back_to_where_it_began() -> None:
    turns = MaintenanceRound()
    round_of(turns, 4)  # the fourth page was given out, and perhaps not worked off
    assert round_of(turns) == NAMES[12:] + NAMES[:12]
    assert round_of(turns) == NAMES


def test_topics_passed_over_come_first_and_again_in_their_place() -> None:
    turns = MaintenanceRound()
    turns.pass_over(NAMES[20])
    assert round_of(turns) == [NAMES[20], *NAMES]
    assert round_of(turns) == NAMES


def test_memory_of_the_past_is_bounded() -> None:
    turns = MaintenanceRound()
    for number in range(PASSED_OVER_MAX + 5):
        turns.pass_over(str(number))
    assert len(turns.begin()[0]) == PASSED_OVER_MAX


def test_topics_that_were_deleted_meanwhile_do_not_lose_the_place() -> None:
    turns = MaintenanceRound()
    round_of(turns, 4)
    left = [name for name in NAMES if name != NAMES[11]]
    assert sorted(round_of(turns, names=left)) == left
