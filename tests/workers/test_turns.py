"""Which tenant is served next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.turns import Turns


def test_the_tenant_that_took_least_is_next() -> None:
    turns = Turns()
    assert turns.next(["a", "b"]) == "a"
    turns.took("a", 10.0)
    assert turns.next(["a", "b"]) == "b"
    turns.took("b", 4.0)
    assert turns.next(["a", "b"]) == "b"
    turns.took("b", 7.0)
    assert turns.next(["a", "b"]) == "a"


def test_those_who_are_served_lose_no_time_that_was_spent_for_them() -> None:
    turns = Turns()
    assert turns.next(["a", "b"]) == "a"
    assert turns.next(["b"], ["a"]) == "b"
    turns.took("a", 10.0)
    assert turns.next(["a"], ["b"]) == "a"
    turns.took("b", 12.0)
    turns.took("a", 5.0)
    assert turns.next(["a", "b"]) == "b"


def test_a_tenant_that_begins_to_wait_later_is_level_with_the_others() -> None:
    turns = Turns()
    for _ in range(100):
        turns.took(turns.next(["a", "b"]), 1.0)
    served = []
    for _ in range(9):
        served.append(turns.next(["a", "b", "late"]))
        turns.took(served[-1], 1.0)
    assert sorted(served) == sorted(["a", "b", "late"] * 3)


def test_a_tenant_that_waits_for_nothing_gains_nothing() -> None:
    turns = Turns()
    turns.next(["a", "b"])
    for _ in range(10):
        turns.took(turns.next(["a"]), 1.0)
    served = []
    for _ in range(4):
        served.append(turns.next(["a", "b"]))
        turns.took(served[-1], 1.0)
    assert served.count("b") == 2


@given(st.lists(st.floats(0.1, 5.0), min_size=3, max_size=60))
def test_no_two_tenants_differ_by_more_than_the_longest_work(lengths: list[float]) -> None:
    turns, spent = Turns(), dict.fromkeys("abc", 0.0)
    for seconds in lengths:
        chosen = turns.next(spent)
        turns.took(chosen, seconds)
        spent[chosen] += seconds
    assert max(spent.values()) - min(spent.values()) <= max(lengths) + 1e-6
