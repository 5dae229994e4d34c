"""The leader's moves even out loads, and come to an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.ownership.balancing import ABOVE_MEAN, AGAIN_MS, EVENED_MAX, BundleMove, moves
from messaging.broker.core.ownership.placement import Everywhere
from messaging.storage.ownership import NamespaceBundle

Loads = dict[str, dict[NamespaceBundle, float]]


def _bundle(number: int) -> NamespaceBundle:
    return NamespaceBundle(f"acme/{number}", 0, 0xFFFFFFFF)


def _loads(**brokers: list[float]) -> Loads:
    numbers = iter(range(1000))
    return {broker_id: {_bundle(next(numbers)): load for load in loads} for broker_id, loads in brokers.items()}


@pytest.mark.parametrize("loads", [_loads(a=[100.0]), _loads(a=[50.0, 55], b=[60.0, 40]), _loads(a=[100.0], b=[]), {}])
def test_nothing_moves_without_a_reason(loads: Loads) -> None:
    assert moves(loads, {}, 0) == []


def test_the_bundle_that_carries_about_the_excess_moves_to_whoever_has_least() -> None:
    loads = _loads(a=[10.0, 30, 60], b=[40.0], c=[10.0])
    assert moves(loads, {}, 0) == [BundleMove(_bundle(2), "a", "c")]


def test_each_broker_gives_or_takes_one_at_a_time() -> None:
    loads = _loads(a=[50.0, 50], b=[50.0, 50], c=[], d=[])
    chosen = moves(loads, {}, 0)
    assert sorted((move.giver, move.taker) for move in chosen) == [("a", "c"), ("b", "d")]


def test_a_bundle_that_has_just_moved_stays() -> None:
    loads = _loads(a=[50.0, 50], b=[])
    assert len(moves(loads, {_bundle(0): 0, _bundle(1): 0}, AGAIN_MS)) == 1
    assert moves(loads, {_bundle(0): 1, _bundle(1): 1}, AGAIN_MS) == []


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.floats(0.1, 1000), max_size=12), min_size=2, max_size=4))
def test_moves_end_and_the_greatest_load_never_grows(given_loads: dict[str, list[float]]) -> None:
    loads = _loads(**given_loads)
    numbers = 0
    greatest = max(sum(bundles.values()) for bundles in loads.values())
    while chosen := moves(loads, {}, 0):
        numbers += 1
        assert numbers < 500
        for move in chosen:
            loads[move.taker][move.bundle] = loads[move.giver].pop(move.bundle)
        now = max(sum(bundles.values()) for bundles in loads.values())
        assert now <= greatest + 1e-6
        greatest = now
    mean = sum(sum(bundles.values()) for bundles in loads.values()) / len(loads)
    largest = max((load for bundles in loads.values() for load in bundles.values()), default=0.0)
    assert greatest <= max(mean * ABOVE_MEAN, mean + largest) + 1e-6


def test_a_broker_that_is_back_gets_its_share_of_quiet_bundles_in_minutes() -> None:
    loads = _loads(a=[0.0] * 30, b=[0.0] * 30, c=[])
    rounds = 0
    while chosen := moves(loads, {}, 0):
        rounds += 1
        assert len(chosen) <= EVENED_MAX and {move.taker for move in chosen} == {"c"}
        for move in chosen:
            loads[move.taker][move.bundle] = loads[move.giver].pop(move.bundle)
    assert rounds <= 3 and [len(bundles) for bundles in loads.values()] == [23, 23, 14]


def test_bundles_that_carry_much_are_not_moved_by_count() -> None:
    loads = _loads(a=[1.0] * 6, b=[100.0])
    assert moves(loads, {}, 0) == [], "b has more to do with one of them than a with six"


class NotB(Everywhere):
    def allowed(self, namespace: str, brokers: Sequence[str], giver: str = "") -> list[str]:
        return [each for each in brokers if each != "b"]


def test_quiet_bundles_go_where_they_may() -> None:
    loads = _loads(a=[0.0] * 8, b=[], c=[])
    chosen = moves(loads, {}, 0, NotB())
    assert chosen and {move.taker for move in chosen} == {"c"}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from([0.0, 0.01, 1.0, 50.0, 1000.0]), max_size=40), min_size=2),
    st.lists(st.sampled_from("abcd"), max_size=3),
)
def test_moves_by_load_and_by_count_do_not_drive_each_other(given_loads: dict[str, list[float]], back: list[str]) -> None:
    """Bundles may move again at once, which is harder than what is done."""
    loads = _loads(**given_loads) | {broker_id: {} for broker_id in back}
    seen = set[tuple[frozenset[NamespaceBundle], ...]]()
    while chosen := moves(loads, {}, 0):
        state = tuple(frozenset(loads[broker_id]) for broker_id in sorted(loads))
        assert state not in seen, "it goes round in circles"
        seen.add(state)
        assert len({move.bundle for move in chosen}) == len(chosen)
        for move in chosen:
            loads[move.taker][move.bundle] = loads[move.giver].pop(move.bundle)
