"""The order of problems, and what partitions have alike."""

from __future__ import annotations

from messaging.problems.kinds import MARKS, Kind, worst
from messaging.problems.order import Problem, ranked

TOPIC = "persistent://acme/orders/placed"


def problem(kind: Kind, topic: str = TOPIC, subscription: str = "s", **given: int | None) -> Problem:
    return Problem(kind=kind, sentence=f"{kind} {topic}", topic=topic, subscription=subscription, **given)  # type: ignore[arg-type]


def test_every_kind_has_a_mark_and_serious_ones_come_first() -> None:
    assert set(MARKS) == set(Kind)
    serious = [MARKS[kind].serious for kind in Kind]
    assert serious == sorted(serious, reverse=True)


def test_the_most_urgent_kind_comes_first_then_where_most_waits_then_what_lasts_longest() -> None:
    listed = [
        problem(Kind.FALLING_BEHIND, waiting=10_000),
        problem(Kind.BLOCKED, waiting=3, since_ms=50),
        problem(Kind.BLOCKED, subscription="t", waiting=3, since_ms=40),
        problem(Kind.BLOCKED, subscription="u", waiting=9, since_ms=60),
        problem(Kind.BLOCKED, subscription="v", waiting=3),  # since when is unknown
        problem(Kind.DISK_LOW, topic="", subscription=""),
    ]
    assert [(one.kind, one.subscription) for one in ranked(listed)] == [
        ("disk_low", ""), ("blocked", "u"), ("blocked", "t"), ("blocked", "s"), ("blocked", "v"), ("falling_behind", "s"),
    ]  # fmt: skip
    assert ranked(reversed(listed)) == ranked(listed)


def test_partitions_with_the_same_problem_are_one_with_the_sentence_of_the_worst() -> None:
    parts = [problem(Kind.BLOCKED, f"{TOPIC}-partition-{index}", waiting=index, since_ms=100 - index) for index in range(4)]
    other = problem(Kind.BLOCKED, f"{TOPIC}-partition-2", "t", waiting=1)
    first, second = ranked([*parts, other])
    assert (first.topic, first.partitions, first.waiting, first.since_ms) == (TOPIC, 4, 6, 97)
    assert first.sentence == parts[3].sentence
    assert (second.subscription, second.partitions, second.since_ms) == ("t", 1, None)


def test_alerts_of_one_tenant_stay_apart() -> None:
    alerts = [Problem(kind=Kind.ALERT, sentence=text, tenant="acme") for text in ("a", "b")]
    assert len(ranked(alerts)) == 2


def test_the_worst_kind_marks_a_row() -> None:
    assert worst([]) == ""
    assert worst(["falling_behind", "blocked", "no_consumer"]) == "blocked"
    assert worst(["of a later release", "falling_behind"]) == "falling_behind"
