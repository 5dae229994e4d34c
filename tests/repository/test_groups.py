"""Tests of one `xdist_group` run in one worker: they share a platform, or would disturb each other's measurements."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("together")
def test_a_group_is_not_torn_apart(request: pytest.FixtureRequest) -> None:
    """xdist knows the group by the end of the test's name. Where it cannot write it there, nobody says so."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where workers share the tests by group: pytest -n 3 --dist loadgroup")
    assert request.node.nodeid.endswith("@together")
