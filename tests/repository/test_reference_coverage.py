"""docs/reference-coverage.md: what it says to work is shown by tests that exist and are expected to pass."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

STATES = {"works", "differs", "not yet", "unknown"}
MODULE = re.compile(r"`([\w/]+\.py)`(?: \(([^)]*)\))?")
CLIENTS = "compat/test_clients.py"


class Row(NamedTuple):
    subject: str
    state: str
    tested: str
    note: str


@pytest.fixture
def rows(repository: Path) -> list[Row]:
    lines = (repository / "docs" / "reference-coverage.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [Row(*row) for row in cells if row[0] != "heading or setting" and not row[0].startswith("---")]


def test_every_row_has_one_of_the_four_states(rows: list[Row]) -> None:
    assert {row.state for row in rows} <= STATES
    subjects = [row.subject for row in rows]
    assert sorted({subject for subject in subjects if subjects.count(subject) > 1}) == []


def test_working_features_name_their_test_and_unknown_ones_none(rows: list[Row]) -> None:
    assert [row.subject for row in rows if row.state in ("works", "differs") and not MODULE.search(row.tested)] == []
    assert [row.subject for row in rows if row.state == "unknown" and row.tested] == []


def test_every_test_module_exists(repository: Path, rows: list[Row]) -> None:
    named = {module for row in rows for cell in (row.tested, row.note) for module, _ in MODULE.findall(cell)}
    assert CLIENTS in named
    assert sorted(module for module in named if not (repository / "tests" / module).is_file()) == []


def test_features_that_work_are_in_the_client_matrix(repository: Path, rows: list[Row]) -> None:
    probes = repository / "tests" / "compat" / "probes"
    offered = {feature for features in json.loads((probes / "features.json").read_text()).values() for feature in features}
    missing = set(tomllib.loads((probes / "not_yet.toml").read_text()))
    for row in rows:
        for module, features in MODULE.findall(row.tested):
            named = {feature.replace(" ", "_") for feature in features.split(", ") if feature}
            assert bool(named) == (module == CLIENTS), row.subject
            assert named <= offered, row.subject
            assert row.state not in ("works", "differs") or not named & missing, row.subject
