"""People: who may sign in at the console. Of which tenants they are members: `tenants.actions.members`."""

from __future__ import annotations

import secrets

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from messaging.errors import Conflict, InvalidValue, NotFound
from messaging.permissions.model import Action, user_role
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.models import User

_PASSWORD_BYTES = 15  # of one that we make: 20 characters


def new_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def create_person(actor: Actor, username: str, password: str, *, superuser: bool = False) -> User:
    """Somebody who may sign in. They see nothing until they are a member of a tenant, or administer the platform.

    Raises `InvalidValue` for a name or password that cannot be one, `Conflict` for a name that is taken."""
    require(actor, Action.SUPERUSER)
    username = User.normalize_username(username)  # or two spellings of one name pass the look for the same name below
    user = User(username=username, is_superuser=superuser, is_staff=superuser)
    check_password(user, password)
    user.set_password(password)
    with change(actor) as changing:
        if User.objects.filter(username__iexact=username).exists():  # names that differ in case only would be taken for each other
            raise Conflict(f"user {username!r} already exists: choose another name")
        try:
            user.full_clean()
        except ValidationError as error:
            raise InvalidValue(f"name {username[:80]!r}: {' '.join(error.messages)}") from None
        user.save()
        changing.audit("person.create", "", username, after={"superuser": superuser})
    return user


def set_password(actor: Actor, username: str, password: str) -> User:
    """Their sessions end. Raises `NotFound`, `InvalidValue`."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        user = _person(username)
        check_password(user, password)
        user.set_password(password)
        user.save()
        changing.audit("person.set_password", "", username)
    return user


def set_active(actor: Actor, username: str, active: bool) -> User:
    """A person who is not active cannot sign in, and is signed out. Raises `NotFound`, `Conflict` for the last administrator."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        user = _person(username)
        others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
        if not active and user.is_superuser and not others.exists():
            raise Conflict(f"{username!r} is the only platform administrator: add another one first")
        if user.is_active != active:
            changing.audit("person.set_active", "", username, {"active": user.is_active}, {"active": active})
            user.is_active = active
            user.save()
    return user


def end_sessions(actor: Actor, username: str) -> User:
    """Signs a person out everywhere, at once. People may do so themselves; else administrators. Raises `NotFound`."""
    if actor.principal.role != user_role(username):
        require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        user = _person(username)
        user.session_epoch += 1
        user.save(update_fields=["session_epoch"])
        changing.audit("user.end_sessions", "", username, None, {"sessions": "all"})
    return user


def _person(username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"user {username!r} does not exist")
    return user


def check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidValue(f"the password is not accepted: {' '.join(error.messages)}") from None
