"""Pages of django-allauth, under the names by which it finds them, each by its row of `admin_ui.permissions`.

`reverse` leads allauth's names for signing in and out to our own pages."""

from __future__ import annotations

from django.urls import path, re_path

from admin_ui.sign_in.pages import page_of
from admin_ui.views import session

_ACCOUNT = "allauth.account.views"

aliases = [
    path("sign-in", session.sign_in, name="account_login"),
    path("sign-out", session.sign_out, name="account_logout"),
    path("account/password", session.password, name="account_change_password"),
]
urlpatterns = [
    *aliases,
    path("sign-up", page_of(_ACCOUNT, "signup"), name="account_signup"),
    path("sign-in/inactive", page_of(_ACCOUNT, "account_inactive"), name="account_inactive"),
    path("sign-in/reset", page_of(_ACCOUNT, "password_reset"), name="account_reset_password"),
    path("sign-in/reset/sent", page_of(_ACCOUNT, "password_reset_done"), name="account_reset_password_done"),
    re_path(
        r"^sign-in/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        page_of(_ACCOUNT, "password_reset_from_key"),
        name="account_reset_password_from_key",
    ),
    path("sign-in/reset/done", page_of(_ACCOUNT, "password_reset_from_key_done"), name="account_reset_password_from_key_done"),
    path("sign-up/verify", page_of(_ACCOUNT, "email_verification_sent"), name="account_email_verification_sent"),
    path("account/verify/<str:key>", page_of(_ACCOUNT, "confirm_email"), name="account_confirm_email"),
    path("account/email", page_of(_ACCOUNT, "email"), name="account_email"),
    path("account/again", page_of(_ACCOUNT, "reauthenticate"), name="account_reauthenticate"),
]
