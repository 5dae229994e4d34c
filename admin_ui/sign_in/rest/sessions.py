"""One's own sessions, over our API. A key has none."""

from __future__ import annotations

from allauth.usersessions.models import UserSession
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.sign_in.rest import shapes
from messaging.errors import InvalidValue, NotFound
from messaging.permissions.audited import SESSIONS_END
from messaging.permissions.model import USER_ROLE_PREFIX
from tenants.actions.change import record
from tenants.actions.people import end_sessions
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of


class _OfCaller(View):
    def username(self) -> str:
        """ "" for a key."""
        role = self.actor().principal.role
        return role.removeprefix(USER_ROLE_PREFIX) if role.startswith(USER_ROLE_PREFIX) else ""

    def rows(self) -> QuerySet[UserSession]:
        rows: QuerySet[UserSession] = UserSession.objects.filter(user__username=self.username())
        return rows


class Sessions(_OfCaller):
    @describe("Where the caller is signed in; none for a key", page_of(shapes.SessionShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        if after and not _is_number(after):
            raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
        here = request._request.session.session_key

        def show(row: UserSession) -> shapes.SessionShape:
            return shapes.SessionShape(
                id=str(row.pk),
                address=row.ip,
                browser=row.user_agent,
                created_at=row.created_at,
                last_seen_at=row.last_seen_at,
                current=row.session_key == here,
            )

        return page(request, self.rows(), "id", show)

    @describe("Sign the caller out everywhere, here too", None, status=204)
    def delete(self, request: Request) -> Response:
        if not self.username():
            raise NotFound("a key has no sessions: revoke it instead")
        self.rows().delete()
        end_sessions(self.actor(), self.username())
        return Response(status=204)


class SessionOne(_OfCaller):
    @describe("Sign the caller out in one place", None, status=204)
    def delete(self, request: Request, session: str) -> Response:
        row = self.rows().filter(pk=int(session)).first() if _is_number(session) else None
        if row is None:
            raise NotFound(f"session {session[:20]!r} does not exist")
        row.end()
        record(self.actor(), SESSIONS_END, "", self.username(), None, {"sessions": 1, "address": row.ip})
        return Response(status=204)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19
