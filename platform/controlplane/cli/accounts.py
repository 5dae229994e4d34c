"""`magnetar users` and `magnetar keys`."""

from __future__ import annotations

import sys

import click

from controlplane.cli.options import loaded, settings_options


@click.group()
def users() -> None:
    """People who sign in at the console: add them, give them a new password, shut them out."""


_PASSWORD_STDIN = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")


def _password(from_stdin: bool) -> str:
    return sys.stdin.readline().rstrip("\n") if from_stdin else ""


@users.command("add")
@click.argument("name")
@click.option("--superuser", is_flag=True, help="They administer the platform.")
@click.option("--tenant", default="", metavar="TENANT", help="They are of this tenant.")
@click.option("--level", type=click.Choice(["owner", "member"]), default="member", help="What they are in it. [default: member]")
@_PASSWORD_STDIN
@settings_options()
def users_add(name: str, superuser: bool, tenant: str, level: str, password_stdin: bool, **overrides: str | None) -> None:
    """Add somebody, and print their password this one time."""
    from controlplane.accounts import add_user

    add_user(loaded(overrides), name, _password(password_stdin), superuser=superuser, tenant=tenant, level=level)


@users.command("list")
@settings_options()
def users_list(**overrides: str | None) -> None:
    """List people: name, rights, tenants; separated by tabs."""
    from controlplane.accounts import list_users

    list_users(loaded(overrides))


@users.command("password")
@click.argument("name")
@_PASSWORD_STDIN
@settings_options()
def users_password(name: str, password_stdin: bool, **overrides: str | None) -> None:
    """Give somebody a new password; their sessions end."""
    from controlplane.accounts import set_user_password

    set_user_password(loaded(overrides), name, _password(password_stdin))


@users.command("deactivate")
@click.argument("name")
@settings_options()
def users_deactivate(name: str, **overrides: str | None) -> None:
    """Shut somebody out; what they did stays in the audit log."""
    from controlplane.accounts import set_user_active

    set_user_active(loaded(overrides), name, False)


@users.command("activate")
@click.argument("name")
@settings_options()
def users_activate(name: str, **overrides: str | None) -> None:
    """Let somebody in again."""
    from controlplane.accounts import set_user_active

    set_user_active(loaded(overrides), name, True)


@click.group()
def keys() -> None:
    """The superuser's token and the keys that sign tokens: rotate them, retire them."""


@keys.command("list")
@settings_options()
def keys_list(**overrides: str | None) -> None:
    """List the keys that verify tokens, the newest first."""
    from controlplane.accounts import list_signing_keys

    list_signing_keys(loaded(overrides))


@keys.command("rotate-signing")
@settings_options()
def keys_rotate_signing(**overrides: str | None) -> None:
    """Sign tokens with a new key from now on; tokens that exist stay valid."""
    from controlplane.accounts import rotate_signing_key

    rotate_signing_key(loaded(overrides))


@keys.command("retire-signing")
@click.argument("key_id")
@settings_options()
def keys_retire_signing(key_id: str, **overrides: str | None) -> None:
    """Refuse every token that this key signed, and end its connections."""
    from controlplane.accounts import retire_signing_key

    retire_signing_key(loaded(overrides), key_id)


@keys.command("rotate-superuser")
@click.option("--expires-days", type=click.IntRange(0, 36_500), default=0, help="How long it is valid. [default: 0, for ever]")
@settings_options()
def keys_rotate_superuser(expires_days: int, **overrides: str | None) -> None:
    """Replace the superuser's token, and revoke the former one."""
    from controlplane.accounts import rotate_superuser_key

    rotate_superuser_key(loaded(overrides), expires_days)
