"""`magnetar teams`: groups of a tenant's people who have roles together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from controlplane.cli.remote.command import EXIT_USAGE, TENANT, Failed, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_one, show_rows


@click.group(cls=RemoteGroup)
def teams() -> None:
    """Teams of a tenant: their members have the roles of the team."""


@teams.command("list")
@TENANT
@remote
def teams_list(at: Remote, tenant: str) -> None:
    """List the teams."""
    show_rows(at.admin.teams.each(at.tenant(tenant)), ("name", "member_count", "roles", "description"), as_json=at.as_json)


@teams.command("show")
@click.argument("team")
@TENANT
@remote
def teams_show(at: Remote, team: str, tenant: str) -> None:
    """Show the roles of a team."""
    show_one(at.admin.teams.get(at.tenant(tenant), team), as_json=at.as_json)


@teams.command("members")
@click.argument("team")
@TENANT
@remote
def teams_members(at: Remote, team: str, tenant: str) -> None:
    """List the members of a team."""
    show_rows(at.admin.team_members.each(at.tenant(tenant), team), ("username",), as_json=at.as_json)


@teams.command("set")
@click.argument("team")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE[@WHERE]",
    help="WHERE is NAMESPACE, NAMESPACE/PATTERN or */PATTERN. [default: the whole tenant] May be repeated.",
)
@click.option("--description", default="", help="What it is for.")
@TENANT
@remote
def teams_set(at: Remote, team: str, roles: Sequence[str], description: str, tenant: str) -> None:
    """Create a team, or change what all its members may do."""
    body: Any = {"roles": [_role(text) for text in roles]} | ({"description": description} if description else {})
    show_one(at.admin.teams.set(at.tenant(tenant), team, body), as_json=at.as_json)


def _role(text: str) -> dict[str, str]:
    role, at, where = text.partition("@")
    namespace, _, topics = where.partition("/")
    if not role or (at and not namespace):
        raise Failed(f"{text!r} is not valid: use ROLE, ROLE@NAMESPACE or ROLE@NAMESPACE/PATTERN", EXIT_USAGE)
    parts = {"role": role, "namespace": "" if namespace == "*" else namespace, "topics": topics}
    return {name: value for name, value in parts.items() if value}


@teams.command("delete")
@click.argument("team")
@TENANT
@remote
def teams_delete(at: Remote, team: str, tenant: str) -> None:
    """Delete a team; its members lose what they have through it."""
    at.admin.teams.delete(at.tenant(tenant), team)


@teams.command("add")
@click.argument("team")
@click.argument("username")
@TENANT
@remote
def teams_add(at: Remote, team: str, username: str, tenant: str) -> None:
    """Add a member of the tenant to a team."""
    at.admin.team_members.set(at.tenant(tenant), team, username)


@teams.command("remove")
@click.argument("team")
@click.argument("username")
@TENANT
@remote
def teams_remove(at: Remote, team: str, username: str, tenant: str) -> None:
    """Remove somebody from a team."""
    at.admin.team_members.delete(at.tenant(tenant), team, username)
