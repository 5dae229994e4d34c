"""What the doctor says of memory: a platform that buffers what it may is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.doctor.running import IDLE_MIB, memory_finding
from messaging.settings import Settings


@pytest.mark.parametrize(("broker_mib", "level"), [(50.0, "ok"), (251.0, "ok"), (IDLE_MIB + 64, "ok"), (IDLE_MIB + 65, "warn")])
def test_the_buffers_of_the_broker_come_on_top_of_an_idle_platform(tmp_path: Path, broker_mib: float, level: str) -> None:
    """A platform that had been used a little was told that it was above the budget of an idle one."""
    settings = Settings(data_dir=str(tmp_path), memory_budget_bytes=64 << 20)
    finding = memory_finding({"broker": broker_mib}, settings)
    assert finding.level == level
    assert f"{broker_mib:.0f} MiB" in finding.says
    assert ("314 are expected at most" in finding.says) == (level == "warn")
