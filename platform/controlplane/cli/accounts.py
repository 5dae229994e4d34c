"""`magnetar users` and `magnetar keys`."""

from __future__ import annotations

import sys

import click

from controlplane.cli.options import loaded, settings_options


@click.group()
def users() -> None:
    """Manage console users: add, list, set a password, deactivate."""


_PASSWORD_STDIN = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")


def _password(from_stdin: bool) -> str:
    return sys.stdin.readline().rstrip("\n") if from_stdin else ""


@users.command("add")
@click.argument("name")
@click.option("--superuser", is_flag=True, help="Make the user a platform administrator.")
@click.option("--tenant", default="", metavar="TENANT", help="Make the user a member of this tenant.")
@click.option(
    "--level", type=click.Choice(["owner", "member"]), default="member", help="The user's level in the tenant. [default: member]"
)
@_PASSWORD_STDIN
@settings_options()
def users_add(name: str, superuser: bool, tenant: str, level: str, password_stdin: bool, **overrides: str | None) -> None:
    """Add a user and print the generated password, which is shown only once."""
    from controlplane.accounts import add_user

    add_user(loaded(overrides), name, _password(password_stdin), superuser=superuser, tenant=tenant, level=level)


@users.command("list")
@settings_options()
def users_list(**overrides: str | None) -> None:
    """List users: name, state, tenants; separated by tabs."""
    from controlplane.accounts import list_users

    list_users(loaded(overrides))


@users.command("password")
@click.argument("name")
@_PASSWORD_STDIN
@settings_options()
def users_password(name: str, password_stdin: bool, **overrides: str | None) -> None:
    """Set a new password and end the user's sessions."""
    from controlplane.accounts import set_user_password

    set_user_password(loaded(overrides), name, _password(password_stdin))


@users.command("deactivate")
@click.argument("name")
@settings_options()
def users_deactivate(name: str, **overrides: str | None) -> None:
    """Deactivate a user. Their entries in the audit log remain."""
    from controlplane.accounts import set_user_active

    set_user_active(loaded(overrides), name, False)


@users.command("activate")
@click.argument("name")
@settings_options()
def users_activate(name: str, **overrides: str | None) -> None:
    """Activate a deactivated user."""
    from controlplane.accounts import set_user_active

    set_user_active(loaded(overrides), name, True)


@click.group()
def keys() -> None:
    """Rotate the superuser token; list, rotate and retire signing keys."""


@keys.command("list")
@settings_options()
def keys_list(**overrides: str | None) -> None:
    """List the keys that verify tokens, newest first."""
    from controlplane.accounts import list_signing_keys

    list_signing_keys(loaded(overrides))


@keys.command("rotate-signing")
@settings_options()
def keys_rotate_signing(**overrides: str | None) -> None:
    """Create a key that signs new tokens. Existing tokens stay valid."""
    from controlplane.accounts import rotate_signing_key

    rotate_signing_key(loaded(overrides))


@keys.command("retire-signing")
@click.argument("key_id")
@settings_options()
def keys_retire_signing(key_id: str, **overrides: str | None) -> None:
    """Refuse all tokens that this key signed and close their connections."""
    from controlplane.accounts import retire_signing_key

    retire_signing_key(loaded(overrides), key_id)


@keys.command("rotate-superuser")
@click.option("--expires-days", type=click.IntRange(0, 36_500), default=0, help="Validity in days; 0: unlimited. [default: 0]")
@settings_options()
def keys_rotate_superuser(expires_days: int, **overrides: str | None) -> None:
    """Replace the superuser token and revoke the old one."""
    from controlplane.accounts import rotate_superuser_key

    rotate_superuser_key(loaded(overrides), expires_days)
