"""docs/threat-model.md: every way in names the tests that show what stops it, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_row_names_tests_that_exist(repository: Path) -> None:
    lines = (repository / "docs" / "threat-model.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| ---", "| who |"))]
    assert rows
    assert [row for row in rows if not TEST.search(row)] == []
    missing = []
    for path, name in sorted({test for row in rows for test in TEST.findall(row)}):
        file = repository / "tests" / path
        if not file.is_file() or not re.search(rf"^\s*(?:async )?def {name}\(", file.read_text(), re.MULTILINE):
            missing.append(f"{path}::{name}")
    assert missing == []
