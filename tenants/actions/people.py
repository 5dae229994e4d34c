"""People: who may sign in at the console. Of which tenants they are members: `tenants.actions.members`."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils import timezone

from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound
from messaging.permissions.model import Action, user_role
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.lasting import end_of_right, require_as_long
from tenants.models import Membership, User, administrators

_PASSWORD_BYTES = 15  # of one that we make: 20 characters


def new_password() -> str:
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def create_person(actor: Actor, username: str, password: str, *, superuser: bool = False) -> User:
    """Somebody who may sign in. They see nothing until they are a member of a tenant, or administer the platform.

    Raises `InvalidValue` for a name or password that cannot be one, `Conflict` for a name that is taken."""
    require(actor, Action.SUPERUSER)
    if superuser:
        require_as_long(actor, Action.SUPERUSER)
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
            why = " ".join(error.messages)
            raise InvalidValue(f"name {username[:80]!r}: {why}") from None
        user.save()
        changing.audit("person.create", "", username, after={"superuser": superuser})
    return user


def set_password(actor: Actor, username: str, password: str) -> User:
    """Their sessions end. Raises `NotFound`, `InvalidValue`."""
    require(actor, Action.SUPERUSER)
    with change(actor) as changing:
        user = _person(username)
        require_may_sign_in_as(actor, user)
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
        if not active:
            _keep_an_administrator(user)
        if user.is_active != active:
            changing.audit("person.set_active", "", username, {"active": user.is_active}, {"active": active})
            user.is_active = active
            user.save()
    return user


def set_administrator(actor: Actor, username: str, superuser: bool, until: datetime | None = None) -> User:
    """Whether somebody administers the platform; `until` when, None: it does not end by itself. Raises `NotFound`, `InvalidValue`
    for a time that is over, `Conflict` where nobody would administer it for good."""
    require(actor, Action.SUPERUSER)
    if until is not None and (not superuser or until <= timezone.now()):
        raise InvalidValue(f"{until.isoformat()} is over: give a later time" if superuser else "leave out the time")
    with change(actor) as changing:
        user = _person(username)
        if not superuser or until is not None:
            _keep_an_administrator(user)
        if superuser:
            require_as_long(actor, Action.SUPERUSER, until=until)
        before = _administrator_state(user)
        user.is_superuser = user.is_staff = superuser
        user.superuser_until = until
        user.save(update_fields=["is_superuser", "is_staff", "superuser_until"])
        changing.audit("person.set_administrator", "", username, before, _administrator_state(user))
    return user


def end_administrators(actor: Actor, now: datetime, most: int = 500) -> int:
    """Those whose time is over are marked as ordinary people, which they are since then. Returns how many, at most `most`."""
    ended = list(User.objects.filter(is_superuser=True, superuser_until__lte=now)[:most])
    for person in ended:
        with change(actor) as changing:
            user = User.objects.filter(pk=person.pk, is_superuser=True, superuser_until__lte=now).first()
            if user is None:  # somebody renewed it
                continue
            before = _administrator_state(user)
            user.is_superuser = user.is_staff = False
            user.superuser_until = None
            user.save(update_fields=["is_superuser", "is_staff", "superuser_until"])
            changing.audit("person.expire_administrator", "", user.username, before, _administrator_state(user))
    return len(ended)


def _keep_an_administrator(leaving: User) -> None:
    """One whose time ends does not count: nobody would be left to add another."""
    lasting = administrators().filter(superuser_until=None)
    if leaving.administers and leaving.superuser_until is None and not lasting.exclude(pk=leaving.pk).exists():
        raise Conflict(f"{leaving.username!r} is the only platform administrator: add another one first")


def require_may_sign_in_as(actor: Actor, user: User) -> None:
    """Before the actor gets a password of somebody. Raises `NotAuthorized` where they would have rights by it for longer than they
    administer the platform: its administration, or a membership."""
    end = end_of_right(actor, Action.SUPERUSER)
    if end is None:
        return
    ends = list(Membership.unscoped.filter(user=user).values_list("expires_at", flat=True))
    if user.administers:
        ends.append(user.superuser_until)
    if any(theirs is None or theirs > end for theirs in ends):
        raise NotAuthorized(
            f"you administer the platform until {end.isoformat()}, and {user.username} has rights for longer: they choose a "
            "password by mail, or somebody who administers it for good gives them one"
        )


def _administrator_state(user: User) -> dict[str, object]:
    until = {} if user.superuser_until is None else {"until": user.superuser_until.isoformat()}
    return {"superuser": user.is_superuser, **until}


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
        why = " ".join(error.messages)
        raise InvalidValue(f"the password is not accepted: {why}") from None
