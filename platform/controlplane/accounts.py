"""Users and keys as `magnetar users` and `magnetar keys` change them.

Both use the same actions as the console and REST, and appear in the audit log with the role ``service:cli``. Django must be set up
before this is imported.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import jwt
from django.utils import timezone

from messaging.errors import NotReady
from messaging.identity import files, first_start
from messaging.settings import ConfigError, Settings
from tenants.access import platform_actor
from tenants.actions.keys import create_superuser_key, revoke_key
from tenants.actions.members import set_member
from tenants.actions.people import create_person, new_password, set_active, set_password
from tenants.models import Membership, Tenant, User

ROLE = "service:cli"
_PRINT = sys.stdout.write


def add_user(username: str, password: str, *, superuser: bool, tenant: str, role: str) -> None:
    """If `password` is empty, one is generated and printed."""
    if tenant and not Tenant.unscoped.filter(name=tenant).exists():
        raise ConfigError(f"tenant {tenant!r} does not exist, so the user was not added: create the tenant first")
    actor = platform_actor(ROLE)
    made = password or new_password()
    create_person(actor, username, made, superuser=superuser)
    if tenant:
        set_member(actor, tenant, username, role)
    _PRINT(f"added {username}{f', {role} of {tenant}' if tenant else ''}{', platform administrator' if superuser else ''}\n")
    if not password:
        _PRINT(f"password: {made}\n")


def set_user_password(username: str, password: str) -> None:
    made = password or new_password()
    set_password(platform_actor(ROLE), username, made)
    _PRINT(f"changed the password of {username} and ended their sessions\n")
    if not password:
        _PRINT(f"password: {made}\n")


def remove_second_factors(username: str) -> None:
    from admin_ui.sign_in.factors import remove_factors  # 0.2 s of allauth, which the other commands do without

    remove_factors(platform_actor(ROLE), username)
    _PRINT(f"removed the second factors of {username} and ended their sessions: the password is enough to sign in\n")


def set_user_active(username: str, active: bool) -> None:
    set_active(platform_actor(ROLE), username, active)
    _PRINT(f"{username} {'can sign in again' if active else 'can no longer sign in and was signed out'}\n")


def list_users() -> None:
    of: dict[int, list[str]] = {}
    for user_id, tenant, role in Membership.unscoped.values_list("user_id", "tenant_id", "role"):
        of.setdefault(user_id, []).append(f"{tenant} ({role})")
    for user in User.objects.order_by("username"):
        marks = ["administrator"] * user.is_superuser + ["deactivated"] * (not user.is_active)
        _PRINT(f"{user.username}\t{', '.join(marks) or '-'}\t{', '.join(of.get(user.pk, [])) or '-'}\n")


def rotate_superuser_key(settings: Settings, expires_days: int) -> None:
    """`expires_days` 0: never. The old token is revoked after the new one has been written to its file."""
    path = files.secrets_path(settings) / first_start.SUPERUSER_FILE
    actor = platform_actor(ROLE)
    former = jwt.decode(files.read_secret(settings, path.name), options={"verify_signature": False})["jti"]
    expires_at = timezone.now() + timedelta(days=expires_days) if expires_days else None
    made = create_superuser_key(actor, expires_at)
    files.replace(path, made.token)
    try:
        revoke_key(actor, "", former)
    except NotReady:
        _PRINT("no broker responded; it will learn that the old token is revoked when it starts\n")
    _PRINT(f"{path} contains a new token; the old one is no longer valid\n")
