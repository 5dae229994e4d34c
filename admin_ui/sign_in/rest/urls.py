"""/api/v1: invitations, sessions, what a tenant asks of people who sign in. Permissions: `admin_ui.sign_in.rest.permissions`."""

from __future__ import annotations

from django.urls import path

from tenants.rest.lazy import LazyView
from tenants.rest.urls import TENANT

urlpatterns = [
    path("me/sessions", LazyView("admin_ui.sign_in.rest.sessions:Sessions"), name="my-sessions"),
    path("me/sessions/<segment:session>", LazyView("admin_ui.sign_in.rest.sessions:SessionOne"), name="my-session"),
    path(f"{TENANT}/sign-in", LazyView("admin_ui.sign_in.rest.rules:Rules"), name="sign-in-rules"),
    path(f"{TENANT}/invitations", LazyView("admin_ui.sign_in.rest.invitations:Invitations"), name="invitations"),
    path(
        f"{TENANT}/invitations/<segment:invitation>", LazyView("admin_ui.sign_in.rest.invitations:InvitationOne"), name="invitation"
    ),
]
