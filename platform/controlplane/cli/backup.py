"""`magnetar backup`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from controlplane.cli.options import settings_options


@click.group()
def backup() -> None:
    """Take backups of the platform while it runs, check them, and restore one.

    docs/backup.md says what is in one, and what is not."""


@backup.command("take")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--without-secrets", is_flag=True, help="Leave out secrets/ and tls/: keep them elsewhere, a restore needs them.")
@click.option(
    "--mib-per-s",
    type=click.FloatRange(0.1, 100_000),
    default=64.0,
    show_default=True,
    help="How fast ledgers are read from bookies, so that their disks are left to clients.",
)
@settings_options()
def backup_take(directory: Path, without_secrets: bool, mib_per_s: float, **overrides: str | None) -> None:
    """Make a new backup below DIRECTORY and print its path."""
    from controlplane.backup import manifest
    from controlplane.backup.take import take
    from messaging.settings import load

    made = take(load(os.environ, **overrides), directory, with_secrets=not without_secrets, mib_per_s=mib_per_s)
    click.echo(manifest.read(made).described(), err=True)
    if why := _record_taken(overrides, made):
        click.echo(f"the audit log has no record of it: {why}", err=True)
    click.echo(str(made))


def _record_taken(overrides: Mapping[str, str | None], folder: Path) -> str:
    """Why the audit log has no record of it, or "". The backup is whole all the same. A database of another release is left as it
    is."""
    from django.db import Error

    from controlplane import bootstrap
    from controlplane.backup import manifest
    from controlplane.backup.audited import record_taken
    from controlplane.cli.offline import control_plane
    from messaging.settings import ConfigError, load

    if bootstrap.needed(load(os.environ, **overrides)):
        return "the control plane's database is not that of this release"
    try:
        with control_plane(overrides):
            record_taken(manifest.read(folder), folder)
    except (ConfigError, Error) as error:
        return str(error)
    return ""


@backup.command("verify")
@click.argument("backup_directory", metavar="BACKUP", type=click.Path(path_type=Path))
@settings_options()
def backup_verify(backup_directory: Path, **overrides: str | None) -> None:
    """Read all of BACKUP, and say whether it can be restored by this release."""
    from controlplane.backup.restore import verify

    click.echo(verify(backup_directory).described())


@backup.command("restore")
@click.argument("backup_directory", metavar="BACKUP", type=click.Path(path_type=Path))
@settings_options()
def backup_restore(backup_directory: Path, **overrides: str | None) -> None:
    """Put BACKUP into a new data directory, and into the databases of the settings, which have to be empty."""
    from controlplane.backup.manifest import FILES
    from controlplane.backup.restore import restore
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    content = restore(settings, backup_directory)
    click.echo(content.described())
    click.echo(
        f"restored into {settings.data_path}; what came after that moment is not there, and keys revoked since are valid again"
    )
    if not content.with_secrets:
        click.echo(
            f"the backup has no secrets: put secrets/ and tls/ into {settings.data_path} before the start, else new ones are made"
        )
    if content.brokers > 1 and content.kept.messages == FILES:  # elsewhere any broker may serve any topic
        click.echo(f"start it with --brokers {content.brokers} or more")
