"""What django-allauth asks us: where links lead, who sends mail, whose address a request has, how secrets are stored."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.stages import EmailVerificationStage
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.contrib.auth import password_validation
from django.core.mail import EmailMessage
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from admin_ui.sign_in import mail
from admin_ui.sign_in.backends import PATH as PROVIDER_BACKEND
from tenants.http.authentication import client_address_of
from tenants.models import ProviderLogin, User
from tenants.sign_in import secrecy

RP_NAME = "Magnetar"
_SIGNED_IN = "account/messages/logged_in.txt"  # the page that follows says so


def console_address(request: HttpRequest, path: str) -> str:
    """A link for somebody outside of this browser."""
    return f"{settings.MAGNETAR.console_url}{path}" if settings.MAGNETAR.console_url else request.build_absolute_uri(path)


class VerificationStage(EmailVerificationStage):  # type: ignore[misc]
    """Only who created the account themselves has to prove their address first: an administrator vouches for everybody else."""

    def handle(self) -> Any:
        user = self.login.user
        if user is not None and not user.must_verify_email:
            return None, True
        return super().handle()


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address_of(request)

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(settings.MAGNETAR.sign_up)

    def is_safe_url(self, url: str) -> bool:
        request = context.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())

    def populate_username(self, request: HttpRequest, user: User) -> None:
        """Who signs up is called by their address: choosing a name would tell which names are taken."""
        if not user.username:
            taken = User.objects.filter(username__iexact=user.email).exists()
            user.username = self.generate_unique_username([user.email]) if taken or len(user.email) > 150 else user.email

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        user.must_verify_email = True
        saved: User = super().save_user(request, user, form, commit)
        return saved

    def get_login_stages(self) -> list[str]:
        ours = f"{VerificationStage.__module__}.{VerificationStage.__qualname__}"
        return [ours if path.endswith(".EmailVerificationStage") else path for path in super().get_login_stages()]

    def login(self, request: HttpRequest, user: User) -> None:
        """A session that begins with a provider ends with it; so does any of somebody who has nothing else to sign in by: a
        passkey must not outlive what the provider says."""
        records = get_authentication_records(request, user)
        by_provider = any(record.get("method") == "socialaccount" for record in records)
        if by_provider or (not user.has_usable_password() and ProviderLogin.objects.filter(user=user).exists()):
            user.backend = PROVIDER_BACKEND
        super().login(request, user)

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """Who has neither a password nor a second factor has nothing to show again."""
        from allauth.account.internal.flows.reauthentication import get_reauthentication_flows

        return bool(get_reauthentication_flows(context.request.user)) and super().is_reauthentication_required(app=app, **more)

    def add_message(self, request: HttpRequest, level: int, message_template: str | None = None, *args: Any, **more: Any) -> None:
        if message_template != _SIGNED_IN:
            super().add_message(request, level, message_template, *args, **more)

    # --- links and mail ---

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _, token = key.partition("-")
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": uid, "key": token})
        return console_address(context.request, path)

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return console_address(request, reverse("account_confirm_email", args=[emailconfirmation.key]))

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        """None to people of a sign-in provider: a password of their own would outlive their account there."""
        if user.has_usable_password():
            super().send_password_reset_mail(user, email, context)

    def format_email_subject(self, subject: str) -> str:
        return subject

    def get_from_email(self) -> str:
        return str(settings.MAGNETAR.mail_from)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        asked = globals()["context"].request
        host = urlsplit(settings.MAGNETAR.console_url).netloc or asked.get_host()
        given = {"request": asked, "email": email, "host": host, **context}
        message: EmailMessage = self.render_mail(template_prefix, email, given)
        mail.send_later([email], str(message.subject), str(message.body))

    # --- passwords ---

    def clean_password(self, password: str, user: User | None = None) -> str:
        password_validation.validate_password(password, user)
        return password


class MFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return secrecy.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return secrecy.decrypt(encrypted_text)

    def get_totp_issuer(self) -> str:
        return RP_NAME

    def get_totp_label(self, user: User) -> str:
        return user.username

    def _get_site_name(self) -> str:
        return RP_NAME

    def _get_user_identifier(self, user: User) -> str:
        return user.username
