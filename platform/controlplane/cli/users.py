"""`magnetar users`."""

from __future__ import annotations

import sys

import click

from controlplane.cli.options import settings_options


@click.group()
def users() -> None:
    """Manage the users of the console."""


_PASSWORD_STDIN = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")


def _password(from_stdin: bool) -> str:
    return sys.stdin.readline().rstrip("\n") if from_stdin else ""


@users.command("add")
@click.argument("name")
@click.option("--superuser", is_flag=True, help="Make the user a platform administrator.")
@click.option("--tenant", default="", metavar="TENANT", help="Make the user a member of this tenant.")
@click.option("--role", default="metadata", metavar="ROLE", help="The user's role in the tenant. [default: metadata]")
@_PASSWORD_STDIN
@settings_options()
def users_add(name: str, superuser: bool, tenant: str, role: str, password_stdin: bool, **overrides: str | None) -> None:
    """Add a user and print the generated password, which is shown only once."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import add_user

        add_user(name, _password(password_stdin), superuser=superuser, tenant=tenant, role=role)


@users.command("list")
@settings_options()
def users_list(**overrides: str | None) -> None:
    """List users: name, state, tenants; separated by tabs."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import list_users

        list_users()


@users.command("password")
@click.argument("name")
@_PASSWORD_STDIN
@settings_options()
def users_password(name: str, password_stdin: bool, **overrides: str | None) -> None:
    """Set a new password and end the user's sessions."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import set_user_password

        set_user_password(name, _password(password_stdin))


@users.command("remove-second-factors")
@click.argument("name")
@settings_options()
def users_remove_second_factors(name: str, **overrides: str | None) -> None:
    """Remove a user's second factors and end their sessions, for somebody who lost them."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import remove_second_factors

        remove_second_factors(name)


@users.command("deactivate")
@click.argument("name")
@settings_options()
def users_deactivate(name: str, **overrides: str | None) -> None:
    """Deactivate a user. Their entries in the audit log remain."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import set_user_active

        set_user_active(name, False)


@users.command("activate")
@click.argument("name")
@settings_options()
def users_activate(name: str, **overrides: str | None) -> None:
    """Activate a deactivated user."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides):
        from controlplane.accounts import set_user_active

        set_user_active(name, True)
