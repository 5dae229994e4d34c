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
    assert plain_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "plain", "a=b", "-5", "+1.5", "-1e3", "'=1"])
def test_a_number_and_other_text_stay(text: str) -> None:
    assert plain_cell(text) == text


def test_the_last_line_says_what_is_missing() -> None:
    assert json.loads(incomplete_line("no ü, “3” left", as_csv=False)) == {"incomplete": "no ü, “3” left"}
    assert next(csv.reader([incomplete_line('first, "and" last', as_csv=True)])) == ["incomplete", 'first, "and" last']
