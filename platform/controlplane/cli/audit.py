"""`magnetar audit`: the audit log verified, from the database or from an export."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from controlplane.cli.options import Refused, settings_options

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def audit() -> None:
    """Verify the audit log."""


@audit.command()
@click.option("--head", "heads", type=_FILE, multiple=True, help="A file of signed heads that was kept elsewhere, one a line.")
@click.option("--export", "export_path", type=_FILE, help="Verify this export (JSON lines) instead of the database.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@settings_options()
def verify(heads: tuple[Path, ...], export_path: Path | None, as_json: bool, **overrides: str | None) -> None:
    """Read the whole log and name every record that was changed, removed, inserted or moved.

    The platform may be running. Ends with 0 if the log is intact, with 1 if it is not. An export is verified without the platform:
    that of a tenant from its oldest record on."""
    from tenants.audit.verification import Report

    if export_path is not None and heads:
        raise Refused("--head belongs to the log of the database: an export of a tenant does not have all its records")
    report: Report
    if export_path is not None:
        from tenants.audit.export_lines import ExportError, read_lines
        from tenants.audit.verification import verify_part

        with export_path.open("rb") as file:
            try:
                report = verify_part(read_lines(file))
            except ExportError as error:
                raise Refused(f"{export_path}: {error}") from None
    else:
        from controlplane.cli.offline import control_plane

        elsewhere = [line for path in heads for line in path.read_text().split()]
        with control_plane(overrides) as settings:
            from tenants.audit.log_reading import verify_signed

            report = verify_signed(settings, elsewhere)
    if as_json:
        click.echo(json.dumps({"intact": report.intact, **vars(report)}))
    else:
        _print(report.records, report.first, report.last, report.pruned, report.masked, report.problems, report.problem_count)
    sys.exit(0 if report.intact else 1)


def _print(records: int, first: int, last: int, pruned: int, masked: int, problems: list[str], problem_count: int) -> None:
    click.echo(f"{records} records were read" + (f", {first} to {last}." if records else "."))
    if pruned:
        click.echo(f"Retention deleted those up to {pruned}; a signed checkpoint stands for them.")
    if masked:
        click.echo(f"In {masked} of them something is masked for who made the export: of those the place alone is verified.")
    for text in problems:
        click.echo(f"problem: {text}")
    if problem_count > len(problems):
        click.echo(f"and {problem_count - len(problems)} more")
    click.echo("The audit log is intact." if not problem_count else f"The audit log is not intact: {problem_count} problems.")


@audit.command()
@settings_options()
def head(**overrides: str | None) -> None:
    """Sign the end of the log and print it: keep it elsewhere, and give it to `verify --head` later."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides) as settings:
        from tenants.audit.heads import sign_head

        signed = sign_head(settings)
        if signed is None:
            raise Refused("the audit log is empty: there is nothing to sign yet")
        click.echo(signed.statement)
