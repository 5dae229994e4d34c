"""The benchmark of the ways in, on few messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import gateway

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("benchmarks"), pytest.mark.standalone]


def test_each_way_in_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "TURNS", 1)
    section = gateway.run(tmp_path, 0.02, lambda text: None)
    assert [row[0] for row in section.tables[0].rows] == ["TCP", "WebSocket", "WebSocket on the web port"]
    assert all(figure.value > 0 for figure in section.figures) and len(section.figures) == 2
    assert list(tmp_path.iterdir()) == []
