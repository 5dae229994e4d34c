"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

CELL_MAX = 80


def show_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """A table with these columns; as JSON the rows as they came."""
    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    titles = [column.replace("_", " ").upper() for column in columns]
    widths = [max(len(line[index]) for line in [titles, *cells]) for index in range(len(columns))]
    for line in [titles, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def show_one(row: Mapping[str, Any], *, as_json: bool) -> None:
    """Its fields, one a line."""
    if as_json:
        show_json(row)
        return
    width = max((len(name) for name in row), default=0)
    for name, value in row.items():
        click.echo(f"{name.ljust(width)}  {_cell(value, 500)}")


def show_outcome(outcome: Mapping[str, Any], *, as_json: bool) -> None:
    """What a change did, or would do."""
    if as_json:
        show_json(outcome)
        return
    affected = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in outcome["affected"].items() if count)
    begin = "would be done" if outcome["dry_run"] else "done"
    click.echo(f"{begin}: {outcome['action']} {outcome['resource']}" + (f" ({affected})" if affected else ""))
    for move in outcome.get("moved", ()):
        click.echo(f"  {move['topic']}: {move['before'] or '-'} -> {move['after'] or '-'}")


def _cell(value: Any, limit: int = CELL_MAX) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(character if character.isprintable() else " " for character in text)  # no control codes to the terminal
    return text if len(text) <= limit else text[: limit - 1] + "…"
