"""The benchmark of long lists, on short ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.lists import lists, topic_rows

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("benchmarks"), pytest.mark.standalone]


def test_every_list_is_measured_beside_a_short_one(tmp_path: Path) -> None:
    section = lists.run(tmp_path, 250, 1, lambda text: None)
    of_control_plane, of_broker = (table.rows for table in section.tables)
    assert [row[0] for row in of_control_plane] == [f"`{listed.path}`" for listed in lists.OF_CONTROL_PLANE]
    first = len(lists.OF_BROKER) + 1
    assert [row[0] for row in of_broker[:first]] == ["none", *(f"`{listed.path}`" for listed in lists.OF_BROKER)]
    kinds = [f"250 {kind.rows}" for kind in (*topic_rows.OF_TOPICS, *topic_rows.OF_LEDGERS)]
    assert list(dict.fromkeys(row[1] for row in of_broker[first:])) == kinds
    assert len(section.figures) == len(of_control_plane) + 1 + 2 * (len(of_broker) - 1) and not section.failures
    assert all(float(row[-1].replace(",", "")) > 0 for row in (*of_control_plane, *of_broker))
    assert list(tmp_path.iterdir()) == []
