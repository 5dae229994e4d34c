"""Asks a provider again: OpenID Connect's discovery, refresh of a token, and userinfo. Blocks; only workers use it."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlsplit

from tenants.sign_in.providers import SignInProvider

TIMEOUT_S = 5
ANSWER_BYTES_MAX = 1 << 20
DISCOVERY_S = 600  # how long what the provider says about itself is kept
_documents: dict[str, tuple[float, dict[str, Any]]] = {}


class UnknownPerson(Exception):
    """The provider refused: it does not know the person any more, or took their sign-in back."""


class ProviderUnreachable(Exception):
    """It is not reached, or did not answer as it should."""


def refresh(provider: SignInProvider, subject: str, refresh_token: str) -> tuple[dict[str, Any], str]:
    """The claims of now, and the new refresh token, "" if the former one stays. Raises `UnknownPerson`, `ProviderUnreachable`."""
    document = discovery(provider)
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": provider.client_id}
    basic = None
    if provider.secret and wants_basic(document):
        basic = (provider.client_id, provider.secret)
    elif provider.secret:
        form["client_secret"] = provider.secret
    status, tokens = _asked("POST", _endpoint(provider, document, "token_endpoint"), data=form, auth=basic)
    if status == 400 and tokens.get("error") == "invalid_grant":
        raise UnknownPerson(str(tokens.get("error_description") or "the refresh token is no longer valid"))
    access_token = tokens.get("access_token")
    if status != 200 or not isinstance(access_token, str):
        raise ProviderUnreachable(f"token endpoint: status {status} {str(tokens.get('error', ''))[:80]}")
    headers = {"Authorization": f"Bearer {access_token}"}
    status, claims = _asked("GET", _endpoint(provider, document, "userinfo_endpoint"), headers=headers)
    if status in (401, 403):
        raise UnknownPerson(f"userinfo: status {status}")
    if status != 200:
        raise ProviderUnreachable(f"userinfo: status {status}")
    if claims.get("sub") != subject:
        raise UnknownPerson("userinfo is of somebody else")
    renewed = tokens.get("refresh_token")
    return claims, renewed if isinstance(renewed, str) else ""


def discovery(provider: SignInProvider) -> dict[str, Any]:
    """Its document, which has to name the issuer that is configured. Raises `ProviderUnreachable`."""
    at_s, document = _documents.get(provider.issuer, (0.0, {}))
    if document and time.monotonic() - at_s < DISCOVERY_S:
        return document
    status, document = _asked("GET", f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration")
    if status != 200:
        raise ProviderUnreachable(f"discovery: status {status}")
    if str(document.get("issuer", "")).rstrip("/") != provider.issuer.rstrip("/"):
        raise ProviderUnreachable(f"discovery: the issuer is {str(document.get('issuer'))[:120]!r}, not {provider.issuer!r}")
    _documents[provider.issuer] = (time.monotonic(), document)
    return document


def wants_basic(document: dict[str, Any]) -> bool:
    """How it wants to be shown the client's secret; by the standard as HTTP Basic if it does not say."""
    methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return "client_secret_post" not in methods and "client_secret_basic" in methods


def _endpoint(provider: SignInProvider, document: dict[str, Any], name: str) -> str:
    """Raises `ProviderUnreachable` for one that is not at least as safe as the issuer itself."""
    url = str(document.get(name, ""))
    if urlsplit(url).scheme not in ("https", urlsplit(provider.issuer).scheme):
        raise ProviderUnreachable(f"discovery: {name} {url[:120]!r} is not a https:// address")
    return url


def _asked(method: str, url: str, **more: Any) -> tuple[int, dict[str, Any]]:
    import requests  # only where there are providers

    try:
        with requests.request(method, url, timeout=TIMEOUT_S, allow_redirects=False, stream=True, **more) as answer:
            status, text = answer.status_code, b""
            for piece in answer.iter_content(65_536):
                text += piece
                if len(text) > ANSWER_BYTES_MAX:
                    raise ProviderUnreachable(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    except (requests.RequestException, OSError) as error:
        raise ProviderUnreachable(type(error).__name__) from None
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    return status, body if isinstance(body, dict) else {}
