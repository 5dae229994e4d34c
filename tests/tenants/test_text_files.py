"""Files of lines that people download."""

from __future__ import annotations

import csv
import json

import pytest

from tenants.text_files import incomplete_line, plain_cell


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1+1", "－1+1", "＠A1"]
)
def test_a_cell_is_no_formula(text: str) -> None:
    shown = plain_cell(text)
    assert shown.startswith("'") and shown.replace("'", "") == text.replace("'", "")


@pytest.mark.parametrize("text", ["", "plain", "a=b", "-5", "+1.5", "-1e3", "'=1"])
def test_a_number_and_other_text_stay(text: str) -> None:
    assert plain_cell(text) == text


def test_the_last_line_says_what_is_missing() -> None:
    assert json.loads(incomplete_line("no ü, “3” left", as_csv=False)) == {"incomplete": "no ü, “3” left"}
    assert next(csv.reader([incomplete_line('first, "and" last', as_csv=True)])) == ["incomplete", 'first, "and" last']


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x;=cmd|'/c calc'!A1;y", "x;'=cmd|'/c calc'!A1;y"),
        ("x\n@SUM(1)", "x\n'@SUM(1)"),
        ("x;-1+cmd|a!A1", "x;'-1+cmd|a!A1"),
        ("=1;=2", "'=1;'=2"),
        ("x;-1.5;y", "x;-1.5;y"),
        ("a;b = c", "a;b = c"),
    ],
)
def test_what_a_spreadsheet_divides_at_semicolons_is_no_formula_either(text: str, shown: str) -> None:
    """In German a comma is no separator: `x;=1+1` within one of our cells was a formula in a cell of its own."""
    assert plain_cell(text) == shown
