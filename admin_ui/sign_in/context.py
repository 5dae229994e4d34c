"""What templates of the account pages need beside what their views give them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from admin_ui.pages import navigation, theme_of
from admin_ui.sign_in import mail
from tenants.sign_in.providers import providers_of


def console(request: HttpRequest) -> dict[str, Any]:
    """The side, for whoever is signed in; the theme; which ways of signing in there are."""
    given: dict[str, Any] = {"theme": theme_of(request), "mail_is_set_up": mail.is_set_up(), "sign_up": settings.MAGNETAR.sign_up}
    given["sign_in_providers"] = list(providers_of(settings.MAGNETAR).values())
    if getattr(request, "actor", None) is not None:
        given["nav"] = SimpleLazyObject(lambda: navigation(request, "account"))  # type: ignore[arg-type]
    return given
