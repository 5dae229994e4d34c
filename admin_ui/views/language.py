"""The choice of a language, kept in this browser."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme

from admin_ui.access import page
from admin_ui.pages import show_error
from admin_ui.translation.languages import COOKIE, COOKIE_AGE_S
from admin_ui.translation.texts import gettext


@page
def language(request: HttpRequest) -> HttpResponse:
    """Sets it and goes back to where the choice was made."""
    chosen, back = request.POST.get("language", ""), request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, None):
        back = "/"
    response = HttpResponseRedirect(back)
    if chosen not in dict(settings.LANGUAGES):
        # Others have no session for a message, and need none because of a form that we did not make.
        if request.user.is_authenticated:
            text = gettext("There is no language {chosen}: choose one that the console offers.")
            show_error(request, text.format(chosen=repr(chosen[:20])))
        return response
    response.set_cookie(COOKIE, chosen, COOKIE_AGE_S, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax")
    return response
