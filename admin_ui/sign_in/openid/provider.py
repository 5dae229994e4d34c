"""The provider class that allauth's registry finds."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialApp, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest
from django.urls import reverse

from admin_ui.sign_in.adapters import console_address
from tenants.sign_in.oidc_client import ProviderUnreachable, discovery, wants_basic
from tenants.sign_in.providers import SignInProvider

SUBJECT_LENGTH_MAX = 191  # allauth stores no more


class ConsoleOpenIDAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    @property
    def openid_config(self) -> dict[str, Any]:
        configured = self.get_provider().app.configured
        try:
            return discovery(configured)
        except ProviderUnreachable as error:
            raise OAuth2Error(str(error)) from None

    @property
    def basic_auth(self) -> bool:
        return wants_basic(self.openid_config)

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return console_address(request, reverse("openid_connect_callback", args=[self.provider_id]))

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **more: Any) -> Any:
        """Raises `OAuth2Error` where the ID token is missing, or of somebody else than userinfo."""
        if not more["response"].get("id_token"):
            raise OAuth2Error("the provider sent no ID token")
        login = super().complete_login(request, app, token, **more)
        said = login.account.extra_data
        if said["id_token"]["sub"] != said["userinfo"]["sub"]:
            raise OAuth2Error("ID token and userinfo are not of one person")
        return login

    def _fetch_user_info(self, access_token: str) -> dict[str, Any]:
        return _with_subject(super()._fetch_user_info(access_token))

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        return _with_subject(super()._decode_id_token(app, id_token))


def _with_subject(claims: Any) -> dict[str, Any]:
    subject = claims.get("sub") if isinstance(claims, dict) else None
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_LENGTH_MAX:
        raise OAuth2Error(f"the provider gave no name (sub) of at most {SUBJECT_LENGTH_MAX} characters")
    return dict(claims)


class ConsoleOpenIDProvider(OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = ConsoleOpenIDAdapter


def app_of(provider: SignInProvider) -> SocialApp:
    """What allauth knows a provider as; nothing of it is stored."""
    app = SocialApp(
        provider=ConsoleOpenIDProvider.id,
        provider_id=provider.id,
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.secret,
        settings={"server_url": provider.issuer, "oauth_pkce_enabled": True, "scope": list(provider.scopes)},
    )
    app.configured = provider
    return app


provider_classes = [ConsoleOpenIDProvider]
