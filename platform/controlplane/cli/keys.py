"""`magnetar keys`."""

from __future__ import annotations

import os

import click

from controlplane.cli.options import Refused, refusals, settings_options


@click.group()
def keys() -> None:
    """Manage the superuser token, the signing keys and the keys of our own processes."""


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


@keys.command("rotate-service")
@click.argument("name", metavar="web|worker|broker|cli")
@settings_options()
def keys_rotate_service(name: str, **overrides: str | None) -> None:
    """Create a key with which this process identifies itself to the others. The former key is accepted too until it is retired."""
    from messaging.identity import service_keys
    from messaging.settings import load

    made = service_keys.rotate(load(os.environ, **overrides), name)
    click.echo(
        f"{name} signs with key {made} within half a minute; its former keys are accepted until you retire them with "
        f"`magnetar keys retire-service {name}`. On other machines, replace secrets/identity/{name}.pub by this one first"
    )


@keys.command("retire-service")
@click.argument("name", metavar="web|worker|broker|cli")
@settings_options()
def keys_retire_service(name: str, **overrides: str | None) -> None:
    """Refuse the former keys of this process; only the newest is accepted."""
    from messaging.identity import service_keys
    from messaging.settings import load

    retired = service_keys.retire(load(os.environ, **overrides), name)
    click.echo(f"{retired} former key{'s' * (retired != 1)} of {name} {'are' if retired != 1 else 'is'} refused from now on")


@keys.command("rotate-superuser")
@click.option("--expires-days", type=click.IntRange(0, 36_500), default=0, help="Validity in days; 0: unlimited. [default: 0]")
@settings_options()
def keys_rotate_superuser(expires_days: int, **overrides: str | None) -> None:
    """Replace the superuser token and revoke the old one."""
    from controlplane.cli.offline import control_plane

    with control_plane(overrides) as settings:
        from controlplane.accounts import rotate_superuser_key

        rotate_superuser_key(settings, expires_days)


@keys.command("make-fleet")
@click.argument("folder")
@refusals
def keys_make_fleet(folder: str) -> None:
    """Make the secrets and the certificates that all machines of a fleet have in common, in a new FOLDER."""
    import datetime

    from messaging.identity.fleet_files import create_fleet_files
    from messaging.settings import load

    settings = load({}, data_dir=folder)
    try:
        made = create_fleet_files(settings, datetime.datetime.now(datetime.UTC))
    except OSError as error:
        raise Refused(f"{folder} cannot be written ({error.strerror}): choose another folder") from None
    click.echo(
        f"copy {settings.data_path / 'secrets'} into the data directory of each machine, and {made} to where "
        f"internal_tls_cert_file, internal_tls_key_file and internal_tls_ca_file name them; keep authority.key elsewhere, to "
        f"sign certificates after these"
    )
