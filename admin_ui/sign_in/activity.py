"""When a session was last used, exact to the minute or two: one write a minute and session, which waits for nobody. How many
sessions somebody may have, and the end of those that nobody used for too long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from allauth.usersessions.models import UserSession
from django.contrib.auth import update_session_auth_hash
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection
from django.http import HttpRequest
from django.utils import timezone

from tenants.http.authentication import client_address_of
from tenants.models import User

EVERY_S = 60
SESSIONS_MAX = 50  # of one person: allauth reads all of them with every sign-in
EXPIRED_A_SIGN_IN = 100
REMEMBERED_MAX = 10_000  # sessions; beyond it all are forgotten, which costs one write each
_noted: dict[str, float] = {}


def seen(request: HttpRequest) -> None:
    """Of somebody signed in. A database that cannot be written is no reason to refuse a page, or to let somebody wait for it: the
    usage of an hour of many topics is written in one transaction, and SQLite has one writer at a time."""
    key, now = request.session.session_key or "", time.monotonic()
    if not key or now - _noted.get(key, -EVERY_S) < EVERY_S:
        return
    if len(_noted) >= REMEMBERED_MAX:
        _noted.clear()
    _noted[key] = now
    try:
        with _without_waiting():
            UserSession.objects.filter(session_key=key).update(last_seen_at=timezone.now(), ip=client_address_of(request))
    except DatabaseError:
        return


@contextmanager
def _without_waiting() -> Iterator[None]:
    """A write fails at once where another one is under way in SQLite. In PostgreSQL nobody else writes the row of a session."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        (wait_ms,) = cursor.execute("pragma busy_timeout").fetchone()
        cursor.execute("pragma busy_timeout = 0")
        try:
            yield
        finally:
            cursor.execute(f"pragma busy_timeout = {int(wait_ms)}")


def make_room(user: User) -> None:
    """Before somebody signs in: ends the sessions that they used least recently, beyond what they may have with the new one."""
    for session in UserSession.objects.filter(user=user).order_by("-last_seen_at", "-pk")[SESSIONS_MAX - 1 :]:
        session.end()


def forget_expired() -> None:
    """Some of the sessions that expired, with each sign-in, which begins one: so they do not gather. The worker, which forgets what
    else is old, knows neither sessions nor allauth, and is 5 MiB smaller for it."""
    keys = list(Session.objects.filter(expire_date__lt=timezone.now()).values_list("pk", flat=True)[:EXPIRED_A_SIGN_IN])
    if keys:
        UserSession.objects.filter(session_key__in=keys).delete()
        Session.objects.filter(pk__in=keys).delete()


def keep_only(request: HttpRequest, user: User) -> None:
    """After all sessions of the person were ended: the one of this request goes on, under a new key."""
    update_session_auth_hash(request, user)
    UserSession.objects.filter(user=user).delete()
    UserSession.objects.create_from_request(request, user=user)
