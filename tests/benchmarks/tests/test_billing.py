"""The benchmark of billing, on little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import billing
from tests.benchmarks.usage_records import rows_a_minute


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_the_job_is_measured_beside_pyarrow(spark: None, tmp_path: Path) -> None:
    section = billing.run(tmp_path, [1], lambda text: None)
    rates, memory = (table.rows for table in section.tables)
    assert [row[0] for row in rates] == [f"{rows_a_minute(billing.TOPICS):,}"]
    assert len(rates[0]) == len(billing.RATES) and len(memory[0]) == len(billing.MEMORY)
    assert float(memory[0][2].replace(",", "")) > 0
    assert list(tmp_path.iterdir()) == []
