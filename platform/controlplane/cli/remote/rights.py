"""Commands about who may do what in a tenant: keys, roles, permissions, explanations; and its ceilings."""

from __future__ import annotations

from collections.abc import Sequence
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
from controlplane.cli.remote.tenant import json_or_text

KEY_COLUMNS = ("id", "name", "role", "created_at", "last_used_at", "expires_at", "revoked_at")
TOPIC = click.option("--topic", default="", help="On one topic alone, without its namespace. [default: on all of the namespace]")
ACTIONS = click.option("--action", "actions", multiple=True, required=True, metavar="ACTION", help="May be repeated.")


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
    @click.option("--produce", multiple=True, metavar="WHERE", help="NAMESPACE, NAMESPACE/PATTERN, or * for all namespaces.")
    @click.option("--consume", multiple=True, metavar="WHERE", help="The same. Without both it may what its role may.")
    @click.option("--network", "networks", multiple=True, metavar="NETWORK", help="Such as 192.0.2.0/24. [default: everywhere]")
    @TENANT
    @remote
    def keys_create(
        at: Remote,
        name: str,
        expires_at: str | None,
        produce: Sequence[str],
        consume: Sequence[str],
        networks: Sequence[str],
        tenant: str,
    ) -> None:
        """Create a key of a tenant and print its token, which is shown only once.

        With --produce or --consume it may do that and nothing else."""
        body: Any = {"name": name} | ({"expires_at": expires_at} if expires_at else {})
        if produce or consume:
            body["scope"] = _scope(produce, consume)
        if networks:
            body["networks"] = list(networks)
        _show_token(at, at.admin.keys.create(at.tenant(tenant), body))

    @group.command("rotate", cls=RemoteCommand)
    @click.argument("key_id")
    @click.option("--overlap-s", type=int, default=86_400, help="For how long the former key goes on. [default: a day]")
    @TENANT
    @remote
    def keys_rotate(at: Remote, key_id: str, overlap_s: int, tenant: str) -> None:
        """Replace a key by one that can do the same, and print the token of that."""
        _show_token(at, at.admin.keys.rotate(at.tenant(tenant), key_id, {"overlap_s": overlap_s}))

    @group.command("revoke", cls=RemoteCommand)
    @click.argument("key_id")
    @DRY_RUN
    @TENANT
    @remote
    def keys_revoke(at: Remote, key_id: str, dry_run: bool, tenant: str) -> None:
        """Revoke a key of a tenant; its connections are closed."""
        show_one(at.admin.keys.delete(at.tenant(tenant), key_id, dry_run=dry_run), as_json=at.as_json)

    @group.command("revoke-token", cls=RemoteCommand)
    @click.option("--token-file", type=click.File(), default="-", help="The file with the token. [default: standard input]")
    @TENANT
    @remote
    def keys_revoke_token(at: Remote, token_file: Any, tenant: str) -> None:
        """Revoke the key of a token that leaked."""
        show_one(at.admin.keys.revoke_token(at.tenant(tenant), {"token": token_file.read().strip()}), as_json=at.as_json)


def _scope(produce: Sequence[str], consume: Sequence[str]) -> list[dict[str, Any]]:
    """One use for each place, with the actions that were given for it."""
    actions: dict[str, list[str]] = {}
    for action, places in (("produce", produce), ("consume", consume)):
        for place in places:
            actions.setdefault(place, []).append(action)
    return [_use(place, given) for place, given in actions.items()]


def _use(place: str, actions: list[str]) -> dict[str, Any]:
    namespace, _, topics = place.partition("/")
    if not namespace:
        raise Failed(f"{place!r} is not valid: use NAMESPACE, NAMESPACE/PATTERN, or * for all namespaces", EXIT_USAGE)
    use: dict[str, Any] = {"actions": actions}
    if namespace != "*":
        use["namespace"] = namespace
    return use | ({"topics": topics} if topics else {})


def _show_token(at: Remote, made: Any) -> None:
    if at.as_json:
        show_json(made)
        return
    click.echo(f"key {made['id']} of the role {made['role']}: this is its token", err=True)
    click.echo(made["token"])


@click.group(cls=RemoteGroup)
def roles() -> None:
    """Roles that members of a tenant can have."""


@roles.command("list")
@TENANT
@remote
def roles_list(at: Remote, tenant: str) -> None:
    """List the built-in roles and those of the tenant."""
    show_rows(at.admin.roles.each(at.tenant(tenant)), ("name", "built_in", "description"), as_json=at.as_json)


@roles.command("show")
@click.argument("role")
@TENANT
@remote
def roles_show(at: Remote, role: str, tenant: str) -> None:
    """Show what a role may do."""
    show_one(at.admin.roles.get(at.tenant(tenant), role), as_json=at.as_json)


@roles.command("set")
@click.argument("role")
@ACTIONS
@click.option("--description", default="", help="What it is for.")
@TENANT
@remote
def roles_set(at: Remote, role: str, actions: Sequence[str], description: str, tenant: str) -> None:
    """Define a role, or change it for everybody who has it."""
    body: Any = {"actions": list(actions)} | ({"description": description} if description else {})
    show_one(at.admin.roles.set(at.tenant(tenant), role, body), as_json=at.as_json)


@roles.command("delete")
@click.argument("role")
@TENANT
@remote
def roles_delete(at: Remote, role: str, tenant: str) -> None:
    """Delete a role that nobody has."""
    at.admin.roles.delete(at.tenant(tenant), role)


@click.group(cls=RemoteGroup)
def permissions() -> None:
    """What roles, such as those of keys, may do in a namespace."""


@permissions.command("list")
@click.argument("namespace")
@TOPIC
@TENANT
@remote
def permissions_list(at: Remote, namespace: str, topic: str, tenant: str) -> None:
    """List what was granted on a namespace or a topic, and until when."""
    resource, place = _granted_on(at, tenant, namespace, topic)
    granted = resource.list(*place)
    ends = granted["expires_at"]
    rows = [
        {"role": role, "actions": ", ".join(actions), "expires_at": ends.get(role)}
        for role, actions in granted["permissions"].items()
    ]
    show_rows(rows, ("role", "actions", "expires_at"), as_json=at.as_json)


@permissions.command("set")
@click.argument("namespace")
@click.argument("role")
@ACTIONS
@TOPIC
@DAYS
@TENANT
@remote
def permissions_set(
    at: Remote, namespace: str, role: str, actions: Sequence[str], topic: str, days: int | None, tenant: str
) -> None:
    """Let a role do these things in a namespace or on a topic, and of them no others; with --days for a time."""
    resource, place = _granted_on(at, tenant, namespace, topic)
    show_one(resource.set(*place, role, {"actions": list(actions)} | until(days)), as_json=at.as_json)


@permissions.command("delete")
@click.argument("namespace")
@click.argument("role")
@TOPIC
@TENANT
@remote
def permissions_delete(at: Remote, namespace: str, role: str, topic: str, tenant: str) -> None:
    """Revoke what was granted to a role on a namespace or a topic."""
    resource, place = _granted_on(at, tenant, namespace, topic)
    resource.delete(*place, role)


def _granted_on(at: Remote, tenant: str, namespace: str, topic: str) -> tuple[Any, tuple[str, ...]]:
    """The resource of the admin client that has these grants, and the place that its calls begin with."""
    if topic:
        return at.admin.topic_permissions, (at.tenant(tenant), namespace, topic)
    return at.admin.namespace_permissions, (at.tenant(tenant), namespace)


@click.command(cls=RemoteCommand)
@click.argument("action")
@click.option("--role", help="Such as user:olga, or app@acme.")
@click.option("--key-id", help="Or the id of a key that has a scope of its own.")
@click.option("--namespace", help="Without the tenant. [default: the tenant as a whole]")
@click.option("--topic", help="Without its namespace.")
@click.option("--subscription")
@TENANT
@remote
def access(at: Remote, action: str, tenant: str, **about: str | None) -> None:
    """Say why a role or key may do something, and who else may."""
    answer = at.admin.tenants.access(at.tenant(tenant), action=action, **about)
    if at.as_json:
        show_json(answer)
        return
    who = answer["key_id"] or answer["role"]
    click.echo(f"{who} {'may' if answer['allowed'] else 'may not'} {action}")
    for reason in answer["reasons"]:
        click.echo(f"  {reason['text']} ({reason['rule']})")
    if answer["refusal"]:
        click.echo(f"  {answer['refusal']}")
    for other in answer["others"]:
        reasons = "; ".join(reason["text"] for reason in other["reasons"])
        click.echo(f"so may {other['key_id'] or other['role']}: {reasons}")
    if not answer["others_complete"]:
        click.echo("there are more members and keys than are looked at")


@click.group(cls=RemoteGroup)
def ceilings() -> None:
    """What a tenant may have in all."""


@ceilings.command("show")
@TENANT
@remote
def ceilings_show(at: Remote, tenant: str) -> None:
    """Show each ceiling and what is used of it."""
    rows = at.admin.tenants.ceilings(at.tenant(tenant))["ceilings"]
    show_rows(rows, ("name", "used_text", "limit_text", "used_percent", "level"), as_json=at.as_json)


@ceilings.command("set")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@TENANT
@remote
def ceilings_set(at: Remote, values: Sequence[str], tenant: str) -> None:
    """Set ceilings; NAME=null removes one. Only administrators of the platform may."""
    changes = {}
    for each in values:
        name, equals, text = each.partition("=")
        if not equals:
            raise Failed(f"{each!r} is no ceiling and its value: use NAME=VALUE", EXIT_USAGE)
        changes[name] = json_or_text(text)
    show_one(at.admin.tenants.update_ceilings(at.tenant(tenant), changes)["set"], as_json=at.as_json)
