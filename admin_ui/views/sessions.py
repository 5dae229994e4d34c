"""Where somebody is signed in, and signing out there."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show, show_error, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.sign_in import activity
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.actions.people import end_sessions

SESSION_COLUMNS = (
    Column("newest", order=("last_seen_at",), down=True),
    Column("browser", gettext_lazy("Browser"), ("user_agent",)),
    Column("address", gettext_lazy("Address"), ("ip",)),
    Column("signed-in", gettext_lazy("Signed in"), ("created_at",), down=True),
    Column("used", gettext_lazy("Last used"), ("last_seen_at",), down=True),
)


@page
def sessions(request: ConsoleRequest) -> HttpResponse:
    from allauth.usersessions.models import UserSession

    if request.method == "POST":
        return _end(request)
    listed = list_rows(request.GET, UserSession.objects.filter(user=request.user), SESSION_COLUMNS, searched=("user_agent", "ip"))
    shown: list[dict[str, Any]] = [
        {
            "id": row.pk,
            "address": row.ip,
            "browser": row.user_agent,
            "created_at": row.created_at,
            "last_seen_at": row.last_seen_at,
            "current": row.session_key == request.session.session_key,
        }
        for row in listed.rows
        if not row.purge()
    ]
    return show(request, "pages/sessions.html", navigation(request, "account"), listed=listed, sessions=shown)


def _end(request: ConsoleRequest) -> HttpResponse:
    """The session `session`, or with `all` every one but this."""
    from allauth.usersessions.models import UserSession

    here = HttpResponseRedirect(reverse("console:sessions"))
    if "all" in request.POST:
        activity.keep_only(request, end_sessions(request.actor, request.user.username))
        show_message(request, gettext("You were signed out everywhere else."))
        return here
    number = request.POST.get("session", "")
    row = UserSession.objects.filter(user=request.user, pk=int(number)).first() if number.isascii() and number.isdecimal() else None
    if row is None:
        show_error(request, gettext("This session is over already."))
        return here
    from admin_ui.sign_in.trail import note
    from messaging.permissions.audited import SESSIONS_END

    row.end()
    note(request, request.user, SESSIONS_END, {"sessions": 1, "address": row.ip})
    show_message(request, gettext("That session was signed out."))
    return here
