"""The benchmark of delayed messages itself, on a few."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.delayed_delivery import delayed


@pytest.mark.thorough
@pytest.mark.slow
def test_delayed_messages(tmp_path: Path) -> None:
    section = delayed.run(tmp_path, (20_000,), lambda text: None)
    assert not section.failures and len(section.figures) == 8
    assert [row[1] for row in section.tables[2].rows] == ["2,000 published together", "2,000 scattered"]
