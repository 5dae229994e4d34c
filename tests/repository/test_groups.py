"""Tests of one `xdist_group` run in one worker: they share a platform, or would disturb each other's measurements."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.dividing import weight


@pytest.mark.xdist_group("together")
def test_a_group_is_not_torn_apart(request: pytest.FixtureRequest) -> None:
    """xdist knows the group by the end of the test's name. Where it cannot write it there, nobody says so."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where workers share the tests by group: pytest -n 3 --dist loadgroup")
    assert request.node.nodeid.endswith("@together")


@pytest.mark.xdist_group("together")
def test_groups_begin_first_and_modules_that_take_long_before_others(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where workers share the tests by group: pytest -n 3 --dist loadgroup")
    items = request.session.items
    grouped = [item.get_closest_marker("xdist_group") is not None for item in items]
    assert grouped == sorted(grouped, reverse=True)
    weights: Counter[str] = Counter()  # in the order in which modules begin
    for item, of_group in zip(items, grouped, strict=True):
        if not of_group:
            weights[item.nodeid.partition("::")[0]] += weight(item)
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
