"""No figure of the console without a row in the table of what it must be."""

from __future__ import annotations

from pathlib import Path

from tests.compat.console.bills import BILLS
from tests.compat.console.pages import hooks_of, templates, without_hook
from tests.compat.console.table import BROKER, ELSEWHERE, KEPT, elsewhere


def test_every_figure_of_a_template_says_which_it_is(repository: Path) -> None:
    found = {name: left for name, text in templates(repository) if (left := list(without_hook(text)))}
    assert found == {}, "figures outside an element with data-figure"


def test_every_figure_has_a_row_and_every_row_a_figure(repository: Path) -> None:
    hooks = {hook for _, text in templates(repository) for hook in hooks_of(text)}
    assert {hook for hook in hooks if hook not in {**BROKER, **KEPT, **BILLS} and not elsewhere(hook)} == set()
    assert {hook for hook in (*BROKER, *KEPT, *BILLS) if hook not in hooks} == set()
    assert {prefix for prefix in ELSEWHERE if not any(hook.startswith(prefix) for hook in hooks)} == set()


def test_what_is_held_against_something_elsewhere_is(repository: Path) -> None:
    assert {file for file in ELSEWHERE.values() if not (repository / file).is_file()} == set()
