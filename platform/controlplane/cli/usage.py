"""`magnetar usage`: what a customer does with their usage on their own machine, without a platform, database or Spark; and where
the platform computes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from controlplane.cli.options import Refused, settings_options

_FILE = click.Path(path_type=Path)


@click.group()
def usage() -> None:
    """Check invoices against usage, and say where it is computed."""


@usage.command()
@click.option("--invoice", "invoice_path", type=_FILE, required=True, help="The invoice as JSON, from the console or the API.")
@click.option("--plan", "plan_paths", type=_FILE, multiple=True, help="A price plan you were given; default: those in the invoice.")
@click.argument("usage_paths", type=_FILE, nargs=-1, required=True)
def verify(invoice_path: Path, plan_paths: tuple[Path, ...], usage_paths: tuple[Path, ...]) -> None:
    """Compute an invoice again from the usage that was downloaded as Parquet, to the cent.

    Ends with 0 if the invoice is right, with 1 if something differs, and says which line and why."""
    from workers.billing.files import read_usage
    from workers.rating.errors import RatingError
    from workers.rating.verify import verify as compare

    try:
        plans = [_document(path) for path in plan_paths] or None
        report = compare(_document(invoice_path), read_usage(usage_paths), plans)
    except RatingError as error:
        raise Refused(str(error)) from None
    click.echo(f"{report.lines} lines, {report.hours} hours, {report.rows} rows of usage")
    for note in report.notes:
        click.echo(f"note: {note}")
    for name, text in report.differences.items():
        click.echo(f"differs: {name}: {text}")
    click.echo("The invoice is right." if report.agrees else f"{len(report.differences)} differences.")
    sys.exit(0 if report.agrees else 1)


@usage.command("move-here")
@settings_options()
def move_here(**overrides: str | None) -> None:
    """Have usage computed in this data directory from now on, where workers are on several machines.

    Its worker takes the files of all brokers first, so all of them have to run. Restart the workers afterwards."""
    from datetime import UTC, datetime

    from controlplane.cli.offline import control_plane

    with control_plane(overrides) as settings:
        from workers import usage_home

        before = usage_home.home()
        usage_home.move_here(settings, datetime.now(UTC))
        click.echo(f"Usage is computed in {usage_home.home()}; before in {before or 'no place'}. Restart the workers of both.")


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise Refused(f"{path} is not a JSON object")
    return document
