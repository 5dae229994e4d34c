"""`magnetar administrators`: who administers the platform, for good or for a time."""

from __future__ import annotations

import click

from controlplane.cli.remote.command import DAYS, Remote, RemoteGroup, remote, until
from controlplane.cli.remote.output import show_one, show_rows


@click.group(cls=RemoteGroup)
def administrators() -> None:
    """Who administers the platform."""


@administrators.command("list")
@remote
def administrators_list(at: Remote) -> None:
    """List them, and until when they do."""
    show_rows(at.admin.administrators.each(), ("username", "expires_at"), as_json=at.as_json)


@administrators.command("set")
@click.argument("username")
@DAYS
@remote
def administrators_set(at: Remote, username: str, days: int | None) -> None:
    """Have somebody administer the platform; with --days for a time."""
    show_one(at.admin.administrators.set(username, until(days)), as_json=at.as_json)


@administrators.command("remove")
@click.argument("username")
@remote
def administrators_remove(at: Remote, username: str) -> None:
    """Have somebody no longer administer the platform. They may still sign in."""
    at.admin.administrators.delete(username)
