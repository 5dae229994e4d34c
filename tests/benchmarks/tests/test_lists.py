"""The benchmark of long lists, on short ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.lists import lists

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("benchmarks"), pytest.mark.standalone]


def test_every_list_is_measured_beside_a_short_one(tmp_path: Path) -> None:
    section = lists.run(tmp_path, 250, 1, lambda text: None)
    of_control_plane, of_broker = (table.rows for table in section.tables)
    assert [row[0] for row in of_control_plane] == [f"`{listed.path}`" for listed in lists.OF_CONTROL_PLANE]
    assert [row[0] for row in of_broker] == ["none", *(f"`{listed.path}`" for listed in lists.OF_BROKER)]
    assert len(section.figures) == len(of_control_plane) + 1 + 2 * len(lists.OF_BROKER)
    assert all(float(row[-1].replace(",", "")) > 0 for row in (*of_control_plane, *of_broker))
    assert list(tmp_path.iterdir()) == []
