"""Commands about a tenant: policies, people, audit log, usage and invoices."""

from __future__ import annotations

import json
from typing import Any

import click

from controlplane.cli.remote.command import (
    DAYS,
    DRY_RUN,
    EXIT_USAGE,
    TENANT,
    Failed,
    Remote,
    RemoteCommand,
    RemoteGroup,
    remote,
    until,
)
from controlplane.cli.remote.output import show_json, show_one, show_rows
from messaging.languages import LANGUAGES

WHERE = click.argument("where", metavar="TENANT[/NAMESPACE[/TOPIC]]")


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
        changes[name] = json_or_text(text)
    _change(at, where, changes, preview=preview)


@policies.command("unset")
@WHERE
@click.argument("names", nargs=-1, required=True)
@click.option("--preview", is_flag=True, help="Say what the change would do now, and change nothing.")
@remote
def policies_unset(at: Remote, where: str, names: tuple[str, ...], preview: bool) -> None:
    """Remove policies, so that they are inherited."""
    _change(at, where, dict.fromkeys(names), preview=preview)


@policies.command("history")
@WHERE
@click.option("--count", type=click.IntRange(1), default=20, help="How many, newest first. [default: 20]")
@remote
def policies_history(at: Remote, where: str, count: int) -> None:
    """Show who changed policies, what they were and what they are since."""
    from itertools import islice

    resource, parts = _place(where)
    records = list(islice(getattr(at.admin, f"{resource.removesuffix('s')}_history").each(*parts), count))
    if at.as_json:
        show_json(records)
        return
    rows = (
        {"record": record["id"], "at": record["at"], "role": record["role"], "change": _change_text(change)}
        for record in records
        for change in record["changes"]
    )
    show_rows(rows, ("record", "at", "role", "change"), as_json=False)


def _change_text(change: Any) -> str:
    name, before, after = change["path"].removeprefix("policies."), change["before"], change["after"]
    return f"{name}: {'not set' if before is None else before} -> {'not set' if after is None else after}"


@policies.command("blame")
@WHERE
@remote
def policies_blame(at: Remote, where: str) -> None:
    """Show by whom each policy that is set there was set."""
    resource, parts = _place(where)
    rows = getattr(at.admin, resource).policies_blame(*parts)["policies"]
    show_rows(rows, ("name", "value", "record", "at", "role"), as_json=at.as_json)


@policies.command("undo")
@WHERE
@click.argument("record")
@DRY_RUN
@remote
def policies_undo(at: Remote, where: str, record: str, dry_run: bool) -> None:
    """Take a change back: RECORD is its number in the history."""
    resource, parts = _place(where)
    show_one(getattr(at.admin, resource).policies_undo(*parts, {"record": record}, dry_run=dry_run), as_json=at.as_json)


def _change(at: Remote, where: str, changes: dict[str, Any], *, preview: bool) -> None:
    resource, parts = _place(where)
    client = getattr(at.admin, resource)
    answer = client.policies_preview(*parts, changes) if preview else client.update_policies(*parts, changes)
    show_one(answer, as_json=at.as_json)


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@click.group(cls=RemoteGroup)
def people() -> None:
    """Members of a tenant."""


@people.command("list")
@TENANT
@remote
def people_list(at: Remote, tenant: str) -> None:
    """List the members."""
    columns = ("username", "role", "namespace", "topics", "expires_at")
    show_rows(at.admin.members.each(at.tenant(tenant)), columns, as_json=at.as_json)


@people.command("set")
@click.argument("username")
@click.argument("role")
@click.option("--namespace", default="", help="Where the role holds, without the tenant. [default: in the whole tenant]")
@click.option("--topics", default="", help="A pattern of names of topics, such as orders-*. [default: all]")
@DAYS
@TENANT
@remote
def people_set(at: Remote, username: str, role: str, namespace: str, topics: str, days: int | None, tenant: str) -> None:
    """Make somebody a member of a tenant, or change their role, and until when."""
    body: Any = {"role": role, "namespace": namespace, "topics": topics} | until(days)
    show_one(at.admin.members.set(at.tenant(tenant), username, body), as_json=at.as_json)


@people.command("remove")
@click.argument("username")
@TENANT
@remote
def people_remove(at: Remote, username: str, tenant: str) -> None:
    """Remove a member from a tenant."""
    at.admin.members.delete(at.tenant(tenant), username)


@people.command("made")
@click.argument("username")
@TENANT
@remote
def people_made(at: Remote, username: str, tenant: str) -> None:
    """List what somebody made in a tenant, or changed last, and that is still there; also of who is no member any more."""
    columns = ("kind", "name", "how", "at", "expires_at", "id")
    show_rows(at.admin.made.each(at.tenant(tenant), username), columns, as_json=at.as_json)


@people.command("invite")
@click.argument("email")
@click.argument("role", default="metadata")
@click.option("--link", is_flag=True, help="Send no mail: print the link, which is shown only once, to hand it over yourself.")
@click.option(
    "--days", type=click.IntRange(1, 3650), help="They are a member for so many days. [default: it does not end by itself]"
)
@TENANT
@remote
def people_invite(at: Remote, email: str, role: str, link: bool, days: int | None, tenant: str) -> None:
    """Invite somebody, who need not have an account yet. Prints the link where mail does not carry it."""
    body: Any = {"email": email, "role": role, "by_mail": not link, "member_days": days or 0}
    made = at.admin.invitations.create(at.tenant(tenant), body)
    if at.as_json:
        show_json(made)
    else:
        click.echo(made["link"] or f"sent to {made['email']}: it is valid until {made['expires_at']}")


@people.command("invitations")
@TENANT
@remote
def people_invitations(at: Remote, tenant: str) -> None:
    """List invitations, open and closed."""
    columns = ("id", "email", "role", "state", "created_by", "expires_at")
    show_rows(at.admin.invitations.each(at.tenant(tenant)), columns, as_json=at.as_json)


@people.command("revoke-invitation")
@click.argument("invitation")
@TENANT
@remote
def people_revoke_invitation(at: Remote, invitation: str, tenant: str) -> None:
    """Revoke an invitation, by its id."""
    show_one(at.admin.invitations.delete(at.tenant(tenant), invitation), as_json=at.as_json)


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
def notices() -> None:
    """What a tenant was told, and sending it to its webhook again."""


@notices.command("list")
@TENANT
@remote
def notices_list(at: Remote, tenant: str) -> None:
    """List notices, and how each was delivered."""
    show_rows(at.admin.tenant_notices.each(at.tenant(tenant)), ("id", "at", "kind", "title", "delivered"), as_json=at.as_json)


@notices.command("replay")
@click.argument("notice", required=False)
@click.option("--since", metavar="TIME", help="All from this time on, such as 2027-01-01T00:00:00Z, instead of one.")
@click.option("--all", "everything", is_flag=True, help="With --since: also those that the webhook has taken.")
@TENANT
@remote
def notices_replay(at: Remote, notice: str | None, since: str | None, everything: bool, tenant: str) -> None:
    """Send one notice to the webhook again, or those that did not arrive."""
    if (notice is None) == (since is None):
        raise Failed("name a notice, or say --since TIME", EXIT_USAGE)
    if notice is not None:
        show_one(at.admin.tenant_notices.replay(at.tenant(tenant), notice), as_json=at.as_json)
        return
    body: Any = {"since": since, "failed_only": not everything}
    show_one(at.admin.tenant_notices.replays(at.tenant(tenant), body), as_json=at.as_json)


@notices.command("test")
@TENANT
@remote
def notices_test(at: Remote, tenant: str) -> None:
    """Send a test notice to everywhere where notices go. `notices list` says how it went."""
    show_one(at.admin.tenants.notifications_test(at.tenant(tenant)), as_json=at.as_json)


@click.group(cls=RemoteGroup)
def language() -> None:
    """In which language a tenant is sent mails, notices and invoices."""


@language.command("show")
@TENANT
@remote
def language_show(at: Remote, tenant: str) -> None:
    """Show it; empty: that of the platform."""
    show_one(at.admin.tenants.language(at.tenant(tenant)), as_json=at.as_json)


@language.command("set")
@click.argument("language", type=click.Choice([*LANGUAGES, "platform"]))
@TENANT
@remote
def language_set(at: Remote, language: str, tenant: str) -> None:
    """Set it; `platform`: that of the platform."""
    body: Any = {"language": "" if language == "platform" else language}
    show_one(at.admin.tenants.set_language(at.tenant(tenant), body), as_json=at.as_json)


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
