"""`magnetar keys`."""

from __future__ import annotations

import os

import click

from controlplane.cli.options import settings_options


@click.group()
def keys() -> None:
    """Manage the superuser token and the signing keys."""


@keys.command("list")
@settings_options()
def keys_list(**overrides: str | None) -> None:
    """List the keys that verify tokens, newest first."""
    from messaging.identity import signing_keys
    from messaging.settings import load

    settings = load(os.environ, **overrides)
    signs = signing_keys.signing_key_id(settings)
    for key_id in signing_keys.verify_keys(settings):
        click.echo(f"{key_id}\t{'signs and verifies' if key_id == signs else 'verifies'}")


@keys.command("rotate-signing")
@settings_options()
def keys_rotate_signing(**overrides: str | None) -> None:
    """Create a key that signs new tokens. Existing tokens stay valid."""
    from messaging.identity import signing_keys
    from messaging.settings import load

    made = signing_keys.rotate(load(os.environ, **overrides))
    click.echo(
        f"key {made} signs new tokens; tokens of older keys stay valid until you retire those keys with `magnetar keys "
        f"retire-signing ID`"
    )


@keys.command("retire-signing")
@click.argument("key_id")
@settings_options()
def keys_retire_signing(key_id: str, **overrides: str | None) -> None:
    """Refuse all tokens that this key signed and close their connections."""
    from messaging.identity import signing_keys
    from messaging.settings import load

    signing_keys.retire(load(os.environ, **overrides), key_id)
    click.echo(f"key {key_id} was retired: tokens that it signed are refused, and their connections are closed within seconds")


@keys.command("rotate-superuser")
@click.option("--expires-days", type=click.IntRange(0, 36_500), default=0, help="Validity in days; 0: unlimited. [default: 0]")
@settings_options()
def keys_rotate_superuser(expires_days: int, **overrides: str | None) -> None:
    """Replace the superuser token and revoke the old one."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides) as settings:
        from controlplane.accounts import rotate_superuser_key

        rotate_superuser_key(settings, expires_days)
