"""What allauth asks us about people who come from a sign-in provider."""

from __future__ import annotations

import re
from typing import Any

from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from admin_ui.sign_in.openid.provider import app_of
from tenants.actions.provider_logins import signed_in
from tenants.models import User
from tenants.sign_in.providers import SignInProvider, providers_of

_NAME_LENGTH_MAX = 150


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[SocialApp]:
        return [
            app_of(known)
            for known in providers_of(settings.MAGNETAR).values()
            if provider in (None, known.id, "openid_connect") and client_id in (None, known.client_id)
        ]

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def can_authenticate_by_email(self, login: SocialLogin, email: str) -> bool:
        return _configured(login).links_accounts

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Nobody becomes a second account of an address that is proven to be somebody's."""
        if sociallogin.is_existing:
            _note(sociallogin, sociallogin.user)
            return
        for address in sociallogin.email_addresses:
            if EmailAddress.objects.filter(email=address.email.lower(), verified=True).exists():
                raise ImmediateHttpResponse(_taken(request, _configured(sociallogin), address.email))
        sociallogin.email_addresses = []  # `save_user` keeps the address: allauth would ask about any that somebody else claims

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> User:
        """A name that is nobody's, and says where they come from unless their address is proven."""
        provider = _configured(sociallogin)
        sociallogin.email_addresses = [
            address for address in sociallogin.email_addresses if address.verified or provider.emails_verified
        ]
        user: User = super().populate_user(request, sociallogin, {**data, "email": None})
        for address in sociallogin.email_addresses:
            address.verified = True
            user.email = address.email
        named = user.email or f"{data.get('username') or sociallogin.account.uid}@{provider.id}"
        user.username = re.sub(r"[^\w.@+-]", "-", named, flags=re.ASCII)[: _NAME_LENGTH_MAX - 10]
        return user

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        user: User = sociallogin.user
        alike = User.objects.filter(username__istartswith=user.username).values_list("username", flat=True)
        taken = {name.casefold() for name in alike}
        names = (user.username, *(f"{user.username}-{number}" for number in range(2, len(taken) + 3)))
        user.username = next(name for name in names if name.casefold() not in taken)
        user.set_unusable_password()
        sociallogin.save(request)
        if user.email:  # allauth has noted it as one that is not confirmed
            EmailAddress.objects.update_or_create(user=user, email=user.email.lower(), defaults={"verified": True, "primary": True})
        _note(sociallogin, user)
        return user


def _note(sociallogin: SocialLogin, user: User) -> None:
    said = sociallogin.account.extra_data
    claims = {**said.get("id_token", {}), **said.get("userinfo", {})}
    token = sociallogin.token.token_secret if sociallogin.token else ""
    signed_in(_configured(sociallogin), sociallogin.account.uid, user, claims, token)


def _configured(login: SocialLogin) -> SignInProvider:
    provider: SignInProvider = login.provider.app.configured
    return provider


def _taken(request: HttpRequest, provider: SignInProvider, email: str) -> HttpResponse:
    return render(request, "socialaccount/address_taken.html", {"provider": provider, "email": email}, status=403)
