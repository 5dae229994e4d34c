"""Programs that tests of the benchmarks write and run."""

from __future__ import annotations

import sys
from pathlib import Path


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path
