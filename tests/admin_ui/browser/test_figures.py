"""A figure has the same text in the page that the server makes and after scripts have brought it up to date, in each language."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from django.utils import translation
from playwright.sync_api import Page

from admin_ui.history.charts import written
from admin_ui.translation import figures

# Edges of units and of rounding, halves among them, and others by chance.
VALUES = [
    0, 0.001, 0.05, 0.1, 0.125, 0.25, 0.375, 0.5, 0.75, 0.994, 0.995, 1, 1.005, 1.25, 2.5, 3.5, 9.949, 9.95, 9.994, 9.995, 9.999,
    10, 12.5, 13.5, 59.9, 60, 61, 99.5, 99.94, 99.95, 100, 999.5, 1_000, 1_023, 1_023.4, 1_023.5, 1_024, 1_536, 3_600, 3_661, 9_999,
    9_999.5, 9_999.6, 10_000, 12_345, 86_400, 90_061, 99_950, 999_499, 999_500, 1_048_575, 1_048_576, 2_500_000, 999_499_999,
    999_500_000, 1_610_612_736, 12_345_678_901, 5 << 40,
    *(round(random.Random(7).uniform(0, 10 ** (index % 8)), index % 4) for index in range(400)),
]  # fmt: skip
FORMS = ("rate", "bytes", "count", "span", "ms", "percent")
SHOWN = """async ([values, forms]) => {
  const { OF_MEASURES, count, rate, bytes, span, percent } = await import("/static/admin_ui/js/format.js");
  return [{ count, rate, bytes, span, percent }, OF_MEASURES].map((all) =>
    Object.fromEntries(Object.entries(all).map(([form, text]) => [form, [...values, null].map(text)])));
}"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_figure_is_the_same_before_and_after_it_is_live(visit: Callable[..., Page], language: str) -> None:
    page = visit("", "/sign-in", locale=language)
    assert page.evaluate("document.documentElement.lang") == language
    live, of_measures = page.evaluate(SHOWN, [VALUES, FORMS])
    with translation.override(language):
        for form, name in (("count", "count"), ("rate", "rate"), ("bytes", "size"), ("span", "span"), ("percent", "percent")):
            assert live[form] == [getattr(figures, name)(value) for value in (*VALUES, None)], form
        for form in FORMS:
            assert of_measures[form] == [written(value, form) for value in (*VALUES, None)], form
