"""`magnetar users` and `magnetar keys`: for whoever has the data directory, with the platform running or not.

They change the database by the same actions as the console and REST, and are in the audit log as role ``service:cli``.
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
    """Django on the platform's database, made if need be, and who acts. What an action refuses becomes a `ConfigError`."""
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
    """`password` "": one is made and printed, this one time."""
    with _control_plane(settings) as actor:
        from tenants.actions.people import create_person, new_password, set_member
        from tenants.models import Tenant

        if tenant and not Tenant.unscoped.filter(name=tenant).exists():
            raise ConfigError(f"tenant {tenant!r} does not exist: nobody was added")
        made = password or new_password()
        create_person(actor, username, made, superuser=superuser)
        if tenant:
            set_member(actor, tenant, username, level)
    _PRINT(
        f"added {username}{f', {level} of {tenant}' if tenant else ''}{', administrator of the platform' if superuser else ''}\n"
    )
    if not password:
        _PRINT(f"password: {made}\n")


def set_user_password(settings: Settings, username: str, password: str) -> None:
    with _control_plane(settings) as actor:
        from tenants.actions.people import new_password, set_password

        made = password or new_password()
        set_password(actor, username, made)
    _PRINT(f"changed; sessions of {username} end\n")
    if not password:
        _PRINT(f"password: {made}\n")


def set_user_active(settings: Settings, username: str, active: bool) -> None:
    with _control_plane(settings) as actor:
        from tenants.actions.people import set_active

        set_active(actor, username, active)
    _PRINT(f"{username} {'may sign in' if active else 'may not sign in any more, and is signed out'}\n")


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
    _PRINT(f"key {made} signs new tokens; tokens of the former keys stay valid until `magnetar keys retire-signing ID`\n")


def retire_signing_key(settings: Settings, key_id: str) -> None:
    from messaging.identity import signing_keys

    signing_keys.retire(settings, key_id)
    _PRINT(f"key {key_id} verifies nothing any more: tokens that it signed are refused, and their connections end within seconds\n")


def rotate_superuser_key(settings: Settings, expires_days: int) -> None:
    """`expires_days` 0: never. The former token is revoked once the new one is in its file."""
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
            _PRINT("no broker answers: it hears that the former token is revoked when it starts\n")
    _PRINT(f"{path} holds a new token; the former one opens nothing any more\n")
