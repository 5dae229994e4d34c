"""Recognises browsers in which a user signed in before, by a signed cookie, so that limits on guessing do not apply to them.

The cookie grants no access. It is bound to the user name and the password: a new password invalidates it.
"""

from __future__ import annotations

import hashlib
import secrets

from django.core import signing
from django.http import HttpRequest, HttpResponse

from tenants.models import User

COOKIE = "magnetar_device"
AGE_MAX_S = 180 * 24 * 3600
_SALT = "admin_ui.devices"


def device_of(request: HttpRequest, username: str) -> str:
    """The id of this browser if `username` has signed in with it before, else ""."""
    try:
        name, device, stamp = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=AGE_MAX_S)
    except (signing.BadSignature, ValueError):
        return ""
    if name != username.casefold():
        return ""
    user = User.objects.filter(username=username, is_active=True).first()
    return str(device) if user is not None and stamp == _stamp(user) else ""


def remember(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Call after a successful sign-in."""
    value = signing.dumps((user.username.casefold(), secrets.token_urlsafe(12), _stamp(user)), salt=_SALT)
    response.set_cookie(
        COOKIE, value, max_age=AGE_MAX_S, secure=request.is_secure(), httponly=True, samesite="Lax", path="/sign-in"
    )


def _stamp(user: User) -> str:
    return hashlib.sha256(user.password.encode()).hexdigest()[:16]
