"""What begins first, so that no worker is left alone with something long at the end, and what ends with its group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support import dividing


def _item(name: str, *marks: Any, sorts: bool = True) -> pytest.Item:
    return cast(pytest.Item, _Item(f"{name}::test", {made.mark.name: made.mark for made in marks}, sorts))


class _Item:
    def __init__(self, nodeid: str, marks: dict[str, pytest.Mark], sorts: bool) -> None:
        self.nodeid = nodeid
        self.get_closest_marker = marks.get
        self.config = SimpleNamespace(getoption=lambda option, default=None: sorts)


def test_groups_begin_and_slow_modules_come_before_those_of_many_quick_tests() -> None:
    quick = [_item("quick") for _ in range(50)]
    group = _item("of_a_group", pytest.mark.xdist_group("small"))
    large = _item("of_another", pytest.mark.xdist_group("large"), pytest.mark.standalone)
    slow = _item("slow", pytest.mark.slow)
    items = [*quick, slow, group, large]
    dividing.sort(items)
    assert items == [large, group, slow, *quick]


def test_a_usual_run_leaves_out_what_is_thorough_and_keeps_the_order_of_the_rest() -> None:
    first, thorough, last = _item("b"), _item("c", pytest.mark.slow, pytest.mark.thorough), _item("a", pytest.mark.slow)
    items = [first, thorough, last]
    assert dividing.leave_out(items) == [thorough] and items == [first, last]


def test_what_a_group_shares_ends_with_it_and_once() -> None:
    ended: list[str] = []
    dividing.when_the_group_ends(lambda: ended.append("platform"))
    mark = pytest.mark.xdist_group("standalone")
    first, last, after = _item("a", mark), _item("b", mark), _item("c")
    dividing.after_teardown(_item("a", mark, sorts=False), None)
    dividing.after_teardown(first, last)
    assert ended == []
    dividing.after_teardown(last, after)
    dividing.after_teardown(after, None)
    assert ended == ["platform"]
