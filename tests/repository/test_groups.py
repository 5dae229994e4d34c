"""Tests of one `xdist_group` run in one worker: they share a platform, or would disturb each other's measurements."""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.mark.xdist_group("together")
def test_a_group_is_not_torn_apart(request: pytest.FixtureRequest) -> None:
    """xdist knows the group by the end of the test's name. Where it cannot write it there, nobody says so."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where workers share the tests by group: pytest -n 3 --dist loadgroup")
    assert request.node.nodeid.endswith("@together")


@pytest.mark.xdist_group("together")
def test_groups_begin_first_and_large_modules_before_small_ones(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where workers share the tests by group: pytest -n 3 --dist loadgroup")
    items = request.session.items
    grouped = [item.get_closest_marker("xdist_group") is not None for item in items]
    assert grouped == sorted(grouped, reverse=True)
    sizes = Counter(item.nodeid.partition("::")[0] for item, of_group in zip(items, grouped, strict=True) if not of_group)
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)  # modules are counted in the order of their tests
