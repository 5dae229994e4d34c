"""`magnetar users` and `magnetar keys`, for whoever has access to the data directory, whether or not the platform is running.

They use the same actions as the console and REST, and appear in the audit log with the role ``service:cli``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from messaging.errors import MagnetarError, NotReady
from messaging.settings import ConfigError, Settings

if TYPE_CHECKING:
    from tenants.access import Actor

_PRINT = sys.stdout.write


@contextmanager
def _control_plane(settings: Settings) -> Iterator[Actor]:
    """Sets up Django with the platform's database, which is created if needed. Errors of actions become `ConfigError`."""
    from controlplane import bootstrap, current, datadir

    datadir.prepare(settings)
    bootstrap.prepare(settings)
    current.use(settings)
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    import django

    django.setup()
    from tenants.access import platform_actor

    try:
        yield platform_actor("service:cli")
    except MagnetarError as error:
        raise ConfigError(error.message) from None


def add_user(settings: Settings, username: str, password: str, *, superuser: bool, tenant: str, level: str) -> None:
    """If `password` is empty, one is generated and printed."""
    with _control_plane(settings) as actor:
        from tenants.actions.people import create_person, new_password, set_member
        from tenants.models import Tenant

        if tenant and not Tenant.unscoped.filter(name=tenant).exists():
            raise ConfigError(f"tenant {tenant!r} does not exist, so the user was not added: create the tenant first")
        made = password or new_password()
        create_person(actor, username, made, superuser=superuser)
        if tenant:
            set_member(actor, tenant, username, level)
    _PRINT(f"added {username}{f', {level} of {tenant}' if tenant else ''}{', platform administrator' if superuser else ''}\n")
    if not password:
        _PRINT(f"password: {made}\n")


def set_user_password(settings: Settings, username: str, password: str) -> None:
    with _control_plane(settings) as actor:
        from tenants.actions.people import new_password, set_password

        made = password or new_password()
        set_password(actor, username, made)
    _PRINT(f"changed the password of {username} and ended their sessions\n")
    if not password:
        _PRINT(f"password: {made}\n")


def set_user_active(settings: Settings, username: str, active: bool) -> None:
    with _control_plane(settings) as actor:
        from tenants.actions.people import set_active

        set_active(actor, username, active)
    _PRINT(f"{username} {'can sign in again' if active else 'can no longer sign in and was signed out'}\n")


def list_users(settings: Settings) -> None:
    with _control_plane(settings):
        from tenants.models import Membership, User

        of: dict[int, list[str]] = {}
        for user_id, tenant, level in Membership.unscoped.values_list("user_id", "tenant_id", "level"):
            of.setdefault(user_id, []).append(f"{tenant} ({level})")
        for user in User.objects.order_by("username"):
            marks = ["administrator"] * user.is_superuser + ["deactivated"] * (not user.is_active)
            _PRINT(f"{user.username}\t{', '.join(marks) or '-'}\t{', '.join(of.get(user.pk, [])) or '-'}\n")


def list_signing_keys(settings: Settings) -> None:
    from messaging.identity import signing_keys

    signs = signing_keys.signing_key_id(settings)
    for key_id in signing_keys.verify_keys(settings):
        _PRINT(f"{key_id}\t{'signs and verifies' if key_id == signs else 'verifies'}\n")


def rotate_signing_key(settings: Settings) -> None:
    from messaging.identity import signing_keys

    made = signing_keys.rotate(settings)
    _PRINT(
        f"key {made} signs new tokens; tokens of older keys stay valid until you retire those keys with `magnetar keys "
        f"retire-signing ID`\n"
    )


def retire_signing_key(settings: Settings, key_id: str) -> None:
    from messaging.identity import signing_keys

    signing_keys.retire(settings, key_id)
    _PRINT(f"key {key_id} was retired: tokens that it signed are refused, and their connections are closed within seconds\n")


def rotate_superuser_key(settings: Settings, expires_days: int) -> None:
    """`expires_days` 0: never. The old token is revoked after the new one has been written to its file."""
    import jwt

    from messaging.identity import files, first_start

    path = files.secrets_path(settings) / first_start.SUPERUSER_FILE
    with _control_plane(settings) as actor:
        from django.utils import timezone

        from tenants.actions.keys import create_superuser_key, revoke_key

        former = jwt.decode(files.read_secret(settings, path.name), options={"verify_signature": False})["jti"]
        expires_at = timezone.now() + timedelta(days=expires_days) if expires_days else None
        made = create_superuser_key(actor, expires_at)
        files.replace(path, made.token)
        try:
            revoke_key(actor, "", former)
        except NotReady:
            _PRINT("no broker responded; it will learn that the old token is revoked when it starts\n")
    _PRINT(f"{path} contains a new token; the old one is no longer valid\n")
