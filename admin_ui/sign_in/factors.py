"""Second factors of people. `User.has_second_factor` follows allauth's rows: whoever asks needs neither allauth nor a query."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models.signals import post_delete, post_save

from messaging.errors import NotFound
from messaging.permissions.audited import SECOND_FACTOR
from messaging.permissions.model import Action
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.models import User


def connect() -> None:
    """Once a process."""
    for signal in (post_save, post_delete):
        signal.connect(_changed, sender=Authenticator, dispatch_uid=f"magnetar.second-factor-{id(signal)}")


def _changed(instance: Authenticator, **_: Any) -> None:
    has_one = factors_of(instance.user_id).exists()
    User.objects.filter(pk=instance.user_id, has_second_factor=not has_one).update(has_second_factor=has_one)


def remove_factors(actor: Actor, username: str) -> User:
    """For somebody who lost theirs, recovery codes included: a password is enough again, and they are signed out everywhere."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        user = User.objects.filter(username=username).first()
        if user is None:
            raise NotFound(f"user {username!r} does not exist")
        kinds = sorted(Authenticator.objects.filter(user=user).values_list("type", flat=True))
        Authenticator.objects.filter(user=user).delete()
        user.session_epoch += 1
        user.has_second_factor = False
        user.save(update_fields=["session_epoch", "has_second_factor"])
        changing.audit(f"{SECOND_FACTOR}.remove", "", username, {"types": kinds})
    return user


def factors_of(user_id: int) -> Any:
    """Those that signing in asks for; recovery codes stand in for them."""
    return Authenticator.objects.filter(user_id=user_id).exclude(type=Authenticator.Type.RECOVERY_CODES)
