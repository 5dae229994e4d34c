"""Commands about a tenant: policies, keys, people, audit log, usage and invoices."""

from __future__ import annotations

import json
from typing import Any

import click

from controlplane.cli.remote.command import (
    DRY_RUN,
    EXIT_USAGE,
    TENANT,
    Failed,
    Remote,
    RemoteCommand,
    RemoteGroup,
    remote,
)
from controlplane.cli.remote.output import show_json, show_one, show_rows

WHERE = click.argument("where", metavar="TENANT[/NAMESPACE[/TOPIC]]")
KEY_COLUMNS = ("id", "name", "role", "created_at", "expires_at", "revoked_at")


@click.group(cls=RemoteGroup)
def policies() -> None:
    """Policies of a tenant, a namespace or a topic."""


def _place(where: str) -> tuple[str, tuple[str, ...]]:
    """The resource of the client, and the parts of the name."""
    parts = tuple(where.removeprefix("persistent://").split("/", 2))
    if not all(parts):
        raise Failed(f"{where!r} is not valid: use TENANT, TENANT/NAMESPACE or TENANT/NAMESPACE/TOPIC", EXIT_USAGE)
    return ("tenants", "namespaces", "topics")[len(parts) - 1], parts


@policies.command("show")
@WHERE
@remote
def policies_show(at: Remote, where: str) -> None:
    """Show the policies in force, and where each is set."""
    resource, parts = _place(where)
    rows = getattr(at.admin, resource).policies_in_force(*parts)["policies"]
    show_rows(rows, ("name", "text", "level"), as_json=at.as_json)


@policies.command("set")
@WHERE
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--preview", is_flag=True, help="Say what the change would do now, and change nothing.")
@remote
def policies_set(at: Remote, where: str, values: tuple[str, ...], preview: bool) -> None:
    """Set policies. A value is JSON, or a text."""
    changes = {}
    for each in values:
        name, equals, text = each.partition("=")
        if not equals:
            raise Failed(f"{each!r} is no policy and its value: use NAME=VALUE", EXIT_USAGE)
        changes[name] = _value(text)
    _change(at, where, changes, preview=preview)


@policies.command("unset")
@WHERE
@click.argument("names", nargs=-1, required=True)
@click.option("--preview", is_flag=True, help="Say what the change would do now, and change nothing.")
@remote
def policies_unset(at: Remote, where: str, names: tuple[str, ...], preview: bool) -> None:
    """Remove policies, so that they are inherited."""
    _change(at, where, dict.fromkeys(names), preview=preview)


def _change(at: Remote, where: str, changes: dict[str, Any], *, preview: bool) -> None:
    resource, parts = _place(where)
    client = getattr(at.admin, resource)
    answer = client.policies_preview(*parts, changes) if preview else client.update_policies(*parts, changes)
    show_one(answer, as_json=at.as_json)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def add_keys(group: click.Group) -> None:
    """To `magnetar keys`, whose other commands are about the signing keys of this machine."""

    @group.command("show", cls=RemoteCommand)
    @TENANT
    @remote
    def keys_show(at: Remote, tenant: str) -> None:
        """List the keys of a tenant."""
        show_rows(at.admin.keys.each(at.tenant(tenant)), KEY_COLUMNS, as_json=at.as_json)

    @group.command("create", cls=RemoteCommand)
    @click.argument("name")
    @click.option("--expires-at", metavar="TIME", help="Such as 2027-01-01T00:00:00Z. [default: never]")
    @TENANT
    @remote
    def keys_create(at: Remote, name: str, expires_at: str | None, tenant: str) -> None:
        """Create a key of a tenant and print its token, which is shown only once."""
        body: Any = {"name": name} | ({"expires_at": expires_at} if expires_at else {})
        made = at.admin.keys.create(at.tenant(tenant), body)
        if at.as_json:
            show_json(made)
            return
        click.echo(f"key {made['id']} of the role {made['role']}: this is its token", err=True)
        click.echo(made["token"])

    @group.command("revoke", cls=RemoteCommand)
    @click.argument("key_id")
    @DRY_RUN
    @TENANT
    @remote
    def keys_revoke(at: Remote, key_id: str, dry_run: bool, tenant: str) -> None:
        """Revoke a key of a tenant; its connections are closed."""
        show_one(at.admin.keys.delete(at.tenant(tenant), key_id, dry_run=dry_run), as_json=at.as_json)


@click.group(cls=RemoteGroup)
def people() -> None:
    """Members of a tenant."""


@people.command("list")
@TENANT
@remote
def people_list(at: Remote, tenant: str) -> None:
    """List the members."""
    show_rows(at.admin.members.each(at.tenant(tenant)), ("username", "level"), as_json=at.as_json)


@people.command("set")
@click.argument("username")
@click.argument("level")
@TENANT
@remote
def people_set(at: Remote, username: str, level: Any, tenant: str) -> None:
    """Make somebody a member of a tenant, or change their level."""
    show_one(at.admin.members.set(at.tenant(tenant), username, {"level": level}), as_json=at.as_json)


@people.command("remove")
@click.argument("username")
@TENANT
@remote
def people_remove(at: Remote, username: str, tenant: str) -> None:
    """Remove a member from a tenant."""
    at.admin.members.delete(at.tenant(tenant), username)


def add_audit(group: click.Group) -> None:
    """To `magnetar audit`, which verifies the log."""

    @group.command("show", cls=RemoteCommand)
    @click.option("--action", help="Only records of this action, such as key.create or denied.")
    @click.option("--role", help="Only records of this role, such as user:olga.")
    @click.option("--count", type=click.IntRange(1), default=50, help="How many, newest first. [default: 50]")
    @TENANT
    @remote
    def audit_show(at: Remote, action: str | None, role: str | None, count: int, tenant: str) -> None:
        """Show who did what."""
        from itertools import islice

        records = at.admin.tenant_audit.each(at.tenant(tenant), action=action, role=role)
        show_rows(islice(records, count), ("at", "role", "address", "action", "resource"), as_json=at.as_json)


def add_usage(group: click.Group) -> None:
    """To `magnetar usage`, which checks invoices."""

    @group.command("show", cls=RemoteCommand)
    @TENANT
    @remote
    def usage_show(at: Remote, tenant: str) -> None:
        """Show what this month costs so far, and is likely to cost."""
        show_one(at.admin.tenants.estimate(at.tenant(tenant)), as_json=at.as_json)


@click.group(cls=RemoteGroup)
def invoices() -> None:
    """Invoices of a tenant."""


@invoices.command("list")
@TENANT
@remote
def invoices_list(at: Remote, tenant: str) -> None:
    """List them, drafts of the running month included."""
    page: Any = at.admin.invoices.list(at.tenant(tenant))
    rows = page["items"]
    columns = tuple(name for name, value in (rows[0] if rows else {}).items() if not isinstance(value, dict | list))
    show_rows(rows, columns or ("number",), as_json=at.as_json)


@invoices.command("show")
@click.argument("invoice")
@TENANT
@remote
def invoices_show(at: Remote, invoice: str, tenant: str) -> None:
    """Show an invoice. As JSON it can be checked with `magnetar usage verify`."""
    show_one(at.admin.invoices.get(at.tenant(tenant), invoice), as_json=at.as_json)
