"""Pages of django-allauth, under the names by which it finds them, each by its row of `admin_ui.permissions`.

`reverse` leads allauth's names for signing in and out to our own pages."""

from __future__ import annotations

from django.urls import path, re_path

from admin_ui.sign_in.pages import page_of
from admin_ui.views import session

_ACCOUNT, _TOTP, _KEYS = "allauth.account.views", "allauth.mfa.totp.views", "allauth.mfa.webauthn.views"
_CODES, _MFA = "allauth.mfa.recovery_codes.views", "allauth.mfa.base.views"

_OPENID, _SOCIAL = "admin_ui.sign_in.openid.views", "allauth.socialaccount.views"

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
    path("sign-in/with/<slug:provider_id>", page_of(_OPENID, "login", of_provider=True), name="openid_connect_login"),
    path("sign-in/with/<slug:provider_id>/return", page_of(_OPENID, "callback", of_provider=True), name="openid_connect_callback"),
    path("sign-in/cancelled", page_of(_SOCIAL, "login_cancelled", of_provider=True), name="socialaccount_login_cancelled"),
    path("sign-in/second-factor", page_of(_MFA, "authenticate"), name="mfa_authenticate"),
    path("sign-in/passkey", page_of(_KEYS, "login_webauthn"), name="mfa_login_webauthn"),
    path("account/second-factor", page_of(_MFA, "index"), name="mfa_index"),
    path("account/again/code", page_of(_MFA, "reauthenticate"), name="mfa_reauthenticate"),
    path("account/again/passkey", page_of(_KEYS, "reauthenticate_webauthn"), name="mfa_reauthenticate_webauthn"),
    path("account/second-factor/app", page_of(_TOTP, "activate_totp"), name="mfa_activate_totp"),
    path("account/second-factor/app/remove", page_of(_TOTP, "deactivate_totp"), name="mfa_deactivate_totp"),
    path("account/second-factor/codes", page_of(_CODES, "view_recovery_codes"), name="mfa_view_recovery_codes"),
    path("account/second-factor/codes/new", page_of(_CODES, "generate_recovery_codes"), name="mfa_generate_recovery_codes"),
    path("account/second-factor/codes/file", page_of(_CODES, "download_recovery_codes"), name="mfa_download_recovery_codes"),
    path("account/second-factor/keys", page_of(_KEYS, "list_webauthn"), name="mfa_list_webauthn"),
    path("account/second-factor/keys/new", page_of(_KEYS, "add_webauthn"), name="mfa_add_webauthn"),
    path("account/second-factor/keys/<int:pk>/remove", page_of(_KEYS, "remove_webauthn"), name="mfa_remove_webauthn"),
    path("account/second-factor/keys/<int:pk>/edit", page_of(_KEYS, "edit_webauthn"), name="mfa_edit_webauthn"),
]
