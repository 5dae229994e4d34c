"""`magnetar plan`, `apply` and `export`: a tenant as a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from controlplane.cli.remote.command import EXIT_USAGE, Failed, Remote, RemoteCommand, remote, with_errors
from controlplane.cli.remote.desired_parts import Change, WrongFile
from controlplane.cli.remote.desired_state import (
    KEY_FIELDS,
    Namespace,
    Subscription,
    Tenant,
    Topic,
    changes,
    exported,
    key_fields,
    parsed,
)
from controlplane.cli.remote.output import show_json
from controlplane.cli.remote.plan_rights import actual_rights, make_rights

Admin = Any  # `messaging.client.admin.Admin`, which is imported when it is needed

EXIT_DIFFERENCE = 2
FILE_BYTES_MAX = 8 << 20
FILE = click.argument("file", type=click.File("r", encoding="utf-8"))
PRUNE = click.option(
    "--prune", is_flag=True, help="Also delete what the file does not name: topics, subscriptions, keys, roles, members, teams."
)


@click.command(cls=RemoteCommand)
@FILE
@PRUNE
@remote
def plan(at: Remote, file: Any, prune: bool) -> None:
    """Show what `apply` would change. Ends with 2 if there is a difference, with 0 if there is none."""
    wanted = _read(file)
    differences = _compared(at, wanted, prune=prune)
    _show(at, differences)
    if differences:
        raise SystemExit(EXIT_DIFFERENCE)


@click.command(cls=RemoteCommand)
@FILE
@PRUNE
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--tokens-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the tokens of new keys are written.")
@remote
def apply(at: Remote, file: Any, prune: bool, yes: bool, tokens_dir: Path | None) -> None:
    """Make a tenant what a file says. Running it again changes nothing."""
    wanted = _read(file)
    differences = _compared(at, wanted, prune=prune)
    if any(change.kind == "key" and change.verb == "create" for change in differences) and tokens_dir is None:
        raise Failed("new keys have tokens, which are shown only once: say with --tokens-dir where they are written", EXIT_USAGE)
    if not differences:
        _show(at, differences)
        return
    if not yes:
        _confirm(wanted.name, differences, file)
    for number, change in enumerate(differences, 1):
        click.echo(f"[{number}/{len(differences)}] {change}", err=True)
        try:
            with_errors(lambda change=change: _make(at.admin, wanted.name, change, tokens_dir))  # type: ignore[misc]
        except Failed as error:
            text = (
                f"{change}: {error.message}; {number - 1} of {len(differences)} changes were made, and `apply` goes on from there"
            )
            raise Failed(text, error.exit_code) from None
    if at.as_json:
        show_json([_json(change) for change in differences])


@click.command(cls=RemoteCommand)
@click.argument("tenant", required=False)
@remote
def export(at: Remote, tenant: str | None) -> None:
    """Print a tenant as a file for `plan` and `apply`. Keys are named, without their tokens."""
    import yaml

    body = exported(_actual(at.admin, at.tenant(tenant or ""), None))
    if at.as_json:
        show_json(body)
    else:
        click.echo(yaml.safe_dump(body, sort_keys=False, allow_unicode=True), nl=False)


def _read(file: Any) -> Tenant:
    import yaml

    try:
        text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise Failed(f"the file is larger than {FILE_BYTES_MAX >> 20} MiB: divide it by namespaces", EXIT_USAGE)
        return parsed(yaml.safe_load(text))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Failed(f"the file is no YAML: {' '.join(str(error).split())}", EXIT_USAGE) from None
    except WrongFile as error:
        raise Failed(str(error), EXIT_USAGE) from None


def _compared(at: Remote, wanted: Tenant, *, prune: bool) -> list[Change]:
    try:
        return changes(wanted, _actual(at.admin, wanted.name, wanted), prune=prune)
    except WrongFile as error:
        raise Failed(str(error), EXIT_USAGE) from None


def _confirm(tenant: str, differences: list[Change], file: Any) -> None:
    if file.name in ("<stdin>", "-"):
        raise Failed("the file is on standard input, so nothing can be asked there: look at `plan`, and say --yes", EXIT_USAGE)
    _show_lines(differences)
    click.confirm(f"Make these {len(differences)} changes to {tenant}?", abort=True, err=True)


def _show(at: Remote, differences: list[Change]) -> None:
    if at.as_json:
        show_json([_json(change) for change in differences])
    elif differences:
        _show_lines(differences)
        click.echo(f"{len(differences)} {'change' if len(differences) == 1 else 'changes'}")
    else:
        click.echo("no changes")


def _show_lines(differences: Iterable[Change]) -> None:
    for change in differences:
        for line in change.lines():
            click.echo(line)


def _json(change: Change) -> dict[str, Any]:
    return {"verb": change.verb, "kind": change.kind, "name": change.name, "before": change.before, "after": change.after}


# --- what there is ---------------------------------------------------------------------------------------------------------------


def _actual(admin: Admin, tenant: str, wanted: Tenant | None) -> Tenant:
    """The tenant as it is: all of it, or as far as `wanted` names it. Calls: three for a namespace, four or five for a
    topic."""
    actual = Tenant(tenant)
    if wanted is None or wanted.policies is not None:
        actual.policies = admin.tenants.policies(tenant)
    if wanted is None or wanted.labels is not None:
        actual.labels = admin.tenants.labels(tenant)["labels"]
    if wanted is None or wanted.language is not None:
        actual.language = admin.tenants.language(tenant)["language"]
    for row in admin.namespaces.each(tenant):
        name = row["name"].partition("/")[2]
        if wanted is None or name in wanted.namespaces:
            actual.namespaces[name] = _actual_namespace(admin, tenant, row, None if wanted is None else wanted.namespaces[name])
    if wanted is None or wanted.keys:
        valid = (key for key in admin.keys.each(tenant) if key["revoked_at"] is None)
        for key in sorted(valid, key=lambda key: key["created_at"]):
            fields = key_fields({name: key[name] for name in KEY_FIELDS}, key["name"])
            actual.keys.setdefault(key["name"], []).append(fields)
    actual.rights = actual_rights(admin, tenant, None if wanted is None else wanted.rights)
    return actual


def _actual_namespace(admin: Admin, tenant: str, row: Any, wanted: Namespace | None) -> Namespace:
    name = row["name"].partition("/")[2]
    namespace = Namespace(dict(row["policies"]), _lasting(admin.namespace_permissions.list(tenant, name)))
    for topic in admin.topics.each(tenant, name):
        domain, _, rest = topic["topic"].partition("://")
        if domain != "persistent":
            continue
        local = unquote(rest.split("/", 2)[2])
        if wanted is None or local in wanted.topics:
            namespace.topics[local] = _actual_topic(
                admin, tenant, name, local, topic["partitions"], schemas=wanted is None or bool(wanted.topics[local].schemas)
            )
        else:
            namespace.topics[local] = Topic(topic["partitions"])
    return namespace


def _actual_topic(admin: Admin, tenant: str, namespace: str, topic: str, partitions: int, *, schemas: bool) -> Topic:
    at = (tenant, namespace, topic)
    return Topic(
        partitions,
        dict(admin.topics.policies(*at)),
        admin.topics.properties(*at)["properties"],
        _lasting(admin.topic_permissions.list(*at)),
        {each["name"]: Subscription(each["properties"]) for each in admin.subscriptions.each(*at) if each["durable"]},
        list(admin.schemas.each(*at)) if schemas else [],
    )


def _lasting(granted: Any) -> dict[str, list[str]]:
    """What ends by itself is no part of a file: applied later it would be given again, and for good."""
    return {role: sorted(actions) for role, actions in granted["permissions"].items() if role not in granted.get("expires_at", {})}


# --- making it so ----------------------------------------------------------------------------------------------------------------


def _make(admin: Admin, tenant: str, change: Change, tokens_dir: Path | None) -> None:
    namespace, topic, subscription = (*change.place, "", "", "")[:3]
    body: Any = change.after
    match change.kind, change.verb:
        case "namespace", _:
            admin.namespaces.create(tenant, {"name": namespace})
        case "topic", "create":
            admin.topics.create(tenant, namespace, {"name": topic, "partitions": body})
        case "topic", _:
            admin.topics.delete(tenant, namespace, topic)
        case "partitions", _:
            admin.topics.update_properties(tenant, namespace, topic, {"partitions": body})
        case "subscription", "create":
            admin.subscriptions.create(tenant, namespace, topic, {"name": subscription, "properties": body})
        case "subscription", _:
            admin.subscriptions.delete(tenant, namespace, topic, subscription)
        case "subscription properties", _:
            admin.subscriptions.set_properties(tenant, namespace, topic, subscription, {"properties": body})
        case "properties", _:
            _change_properties(admin, (tenant, namespace, topic), change)
        case "policies", _:
            _set_policies(admin, (tenant, *change.place), body)
        case "labels", _:
            admin.tenants.set_labels(tenant, {"labels": body})
        case "language", _:
            admin.tenants.set_language(tenant, {"language": body})
        case "grants", _:
            _change_grants(admin, tenant, namespace, topic, change)
        case "schema", _:
            admin.schemas.create(tenant, namespace, topic, body)
        case (("role" | "member" | "team" | "members"), _):
            make_rights(admin, tenant, change)
        case "key", "create":
            _create_key(admin, tenant, change, tokens_dir)
        case "key", _:
            for key in admin.keys.each(tenant):
                if key["name"] == change.name and key["revoked_at"] is None:
                    admin.keys.delete(tenant, key["id"])
        case _:
            raise AssertionError(f"there is no change of {change.kind}")


def _set_policies(admin: Admin, place: tuple[str, ...], policies: Any) -> None:
    resource = (admin.tenants, admin.namespaces, admin.topics)[len(place) - 1]
    resource.set_policies(*place, policies)


def _change_properties(admin: Admin, at: tuple[str, str, str], change: Change) -> None:
    for removed in change.before.keys() - change.after.keys():
        admin.topics.update_properties(*at, {"removed_property": removed})
    if change.after:
        admin.topics.update_properties(*at, {"properties": change.after})


def _change_grants(admin: Admin, tenant: str, namespace: str, topic: str, change: Change) -> None:
    for role in sorted(change.before.keys() | change.after.keys()):
        actions = change.after.get(role)
        if actions == change.before.get(role):
            continue
        if topic and actions:
            admin.topic_permissions.set(tenant, namespace, topic, role, {"actions": actions})
        elif topic:
            admin.topic_permissions.delete(tenant, namespace, topic, role)
        elif actions:
            admin.namespace_permissions.set(tenant, namespace, role, {"actions": actions})
        else:
            admin.namespace_permissions.delete(tenant, namespace, role)


def _create_key(admin: Admin, tenant: str, change: Change, tokens_dir: Path | None) -> None:
    """The file is made first: a token that cannot be written would be lost."""
    assert tokens_dir is not None, "it was asked for"
    path = tokens_dir / f"{change.name}.token"
    try:
        tokens_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Failed(f"the token of key {change.name!r} cannot be written to {path}: {error.strerror}", EXIT_USAGE) from None
    body = {"name": change.name} | {name: value for name, value in change.after.items() if value is not None}
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        try:
            created = admin.keys.create(tenant, body)
        except BaseException:
            path.unlink()  # the next attempt makes it again
            raise
        try:
            file.write(created["token"] + "\n")
            file.flush()
        except OSError as error:
            text = f"key {created['id']} was created, and its token cannot be written to {path} ({error.strerror}): revoke it"
            raise Failed(text, EXIT_USAGE) from None
    click.echo(f"  the token is in {path}", err=True)
