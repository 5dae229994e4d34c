"""Who a request to the web process comes from: a bearer token, a session of the console, a process of ours, or nobody.

A request that shows a token is judged by the token alone: a wrong one is refused, not skipped in favour of a cookie.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.crypto import constant_time_compare

from messaging.adminrpc.callers import require_call
from messaging.caller import current_caller
from messaging.client_address import client_address, within
from messaging.errors import AuthenticationFailed, NotAuthorized
from messaging.identity import ServiceVerifier, TokenVerifier
from messaging.identity.certificates import Certificate, certificate_principal, check_process_certificate
from messaging.identity.issuers import TrustedIssuer, claimed_issuer, issued_principal
from messaging.key_uses import KeyUses
from messaging.local_caller import is_local_caller
from messaging.permissions.model import ANONYMOUS, Principal, tenant_of_key_role
from messaging.settings import Settings
from tenants.access import Actor
from tenants.feed import issuer_state
from tenants.grants import DatabaseGrants
from tenants.http.request_state import state_of
from tenants.models import Key, TokenIssuer, User
from tenants.scoping import platform_scope

_SAFE_METHODS = ("GET", "HEAD")
_lock = threading.Lock()
_token_verifier: TokenVerifier | None = None
_service_verifier: ServiceVerifier | None = None
TOKENS_REMEMBERED_MAX = 1_000
_tenants_of_tokens: dict[str, str] = {}
key_uses = KeyUses(int(time.time() * 1000))  # by calls that came here


def actor_of(request: HttpRequest) -> Actor:
    """The actor of a request, found once. Raises `AuthenticationFailed`; `NotAuthorized` for a session without CSRF token."""
    state = state_of(request)
    if state.actor is None:
        state.actor = _new_actor(request)
        if not state.actor.principal.anonymous:
            current_caller().tenant = turns_of(state.actor.principal)
    return state.actor


def actor_now(request: HttpRequest) -> Actor:
    """As `actor_of`, by what the token or session of the request is worth this moment, with the rights of this moment: for work
    that goes on long after the request came. Raises `AuthenticationFailed` for a key that was revoked or a session that has ended.
    Blocks."""
    session: SessionBase | None = getattr(request, "session", None)
    if _bearer(request) is None and session is not None and SESSION_KEY in session:
        user = user_of_session(session, int(session[SESSION_KEY]))  # not `request.user`: views of REST framework replace it
        if user is None:
            raise AuthenticationFailed("your session has ended: sign in again")
        request.user = user
    return _new_actor(request)


def user_of_session(session: SessionBase | None, user_id: int) -> User | None:
    """The person as they are now; None if they may not sign in or are signed out: the session is gone, or the password has changed
    since it began. Without a session that is not asked. Blocks."""
    path = session.get(BACKEND_SESSION_KEY, "") if session is not None else ""
    backend = load_backend(path) if path in django_settings.AUTHENTICATION_BACKENDS else ModelBackend()
    user = backend.get_user(user_id)
    if not isinstance(user, User):
        return None
    if session is None:
        return user
    if not session.exists(session.session_key or ""):
        return None
    return user if constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()) else None


def _new_actor(request: HttpRequest) -> Actor:
    grants = DatabaseGrants(anonymous_public=_is_local(request))
    request_id, address = getattr(request, "request_id", ""), client_address_of(request)
    return Actor(_principal(request), request_id, grants, address=address, second_factor=_has_second_factor(request))


def turns_of(principal: Principal) -> str:
    """Whose turns it takes: its tenant's, or a person's own."""
    return tenant_of_key_role(principal.role) or principal.role


def tenant_of_token(token: str) -> str:
    """Whose turns a request with this token takes; "" for one that is not signed by us. Whether its key was revoked is not looked
    at. Does not block; remembers tokens, because a signature takes 0.1 ms."""
    known = _tenants_of_tokens.get(token)
    if known is None:
        try:
            known = turns_of(_verifier().verify(token, int(time.time() * 1000)))
        except AuthenticationFailed:
            return ""
        if len(_tenants_of_tokens) >= TOKENS_REMEMBERED_MAX:
            _tenants_of_tokens.clear()
        _tenants_of_tokens[token] = known
    return known


def service_of(request: HttpRequest, call: str) -> Principal:
    """The process of ours that makes this call. Raises `AuthenticationFailed`; `NotAuthorized` where that is not on its list."""
    global _service_verifier
    settings: Settings = django_settings.MAGNETAR
    with _lock:
        if _service_verifier is None:
            _service_verifier = ServiceVerifier.from_settings(settings)
    now_ms = int(time.time() * 1000)
    principal = _service_verifier.verify(_bearer(request) or "", now_ms)
    if settings.internal_tls:
        check_process_certificate(principal, _certificate(request, "process_certificate"), now_ms)
    require_call(principal, call)
    return principal


def _certificate(request: HttpRequest, kind: str) -> Certificate | None:
    """By what the listener says: `peer_certificate` of clients, `process_certificate` of our own processes."""
    certificate: Certificate | None = getattr(request, "scope", {}).get("state", {}).get(kind)
    return certificate


def _by_certificate(request: HttpRequest) -> Principal:
    """Of a client that presented a certificate of `tls_client_ca_file`, else anonymous. Raises `AuthenticationFailed`.

    A browser presents its certificate to whatever page makes it call, so requests of pages are not identified by it."""
    certificate, settings = _certificate(request, "peer_certificate"), django_settings.MAGNETAR
    if not certificate or "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        return Principal(ANONYMOUS)
    roles = dict(text.split("=", 1) for text in settings.tls_client_roles)
    return certificate_principal(certificate, roles, int(time.time() * 1000))


def principal_of_token(token: str, address: str = "") -> Principal:
    """Raises `AuthenticationFailed` if the token is not valid, or its key is revoked, or unknown, or not for use from `address`."""
    now_ms = int(time.time() * 1000)
    principal = _issued(token, now_ms) or _verifier().verify(token, now_ms)
    if principal.key_id:
        _check_key(principal, address)
        key_uses.note(principal.key_id, now_ms)
    return principal


def _issued(token: str, now_ms: int) -> Principal | None:
    """Of a token by an issuer that a tenant trusts; None for any other. Raises `AuthenticationFailed` for one that is not valid."""
    claimed = claimed_issuer(token)
    if not claimed:
        return None
    with platform_scope():
        rows = list(TokenIssuer.objects.filter(issuer=claimed).select_related("tenant"))
    trusted = [TrustedIssuer.from_state(f"{row.tenant_id}/{row.name}", issuer_state(row)) for row in rows]
    return issued_principal(token, trusted, now_ms) if trusted else None


def key_of_token(token: str) -> str:
    """The id of the key that a token of ours was made for, whether it is revoked or not. Raises `AuthenticationFailed`."""
    return _verifier().verify(token, int(time.time() * 1000)).key_id


def _verifier() -> TokenVerifier:
    global _token_verifier
    with _lock:
        if _token_verifier is None:
            _token_verifier = TokenVerifier.from_settings(django_settings.MAGNETAR)
        return _token_verifier


def _check_key(principal: Principal, address: str) -> None:
    key = Key.unscoped.filter(id=principal.key_id).only("role", "revoked_at", "expires_at", "networks").first()
    if key is None or key.role != principal.role:
        raise AuthenticationFailed("the key of this token no longer exists: create a new one")
    if key.revoked_at is not None:
        raise AuthenticationFailed("the key of this token was revoked: create a new one")
    if key.expires_at is not None and key.expires_at.timestamp() <= time.time():
        raise AuthenticationFailed("the key of this token has expired: use the key that replaced it, or create a new one")
    if not within(address, key.networks):
        raise AuthenticationFailed(f"the key of this token may not be used from {address}: use it from one of its networks")


def _principal(request: HttpRequest) -> Principal:
    token = _bearer(request)
    if token is not None:
        return principal_of_token(token, client_address_of(request))
    user: Any = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return _by_certificate(request)
    if request.method not in _SAFE_METHODS:
        _check_csrf(request)
    return Principal(user.role)


def _has_second_factor(request: HttpRequest) -> bool:
    """Asked of people only: a token needs none."""
    user = getattr(request, "user", None)
    return _bearer(request) is not None or not isinstance(user, User) or user.shows_second_factor


def _bearer(request: HttpRequest) -> str | None:
    """The token after ``Bearer``; None without the header. Another scheme is an error: it was meant to identify somebody."""
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer":
        raise AuthenticationFailed("use the scheme `Authorization: Bearer <token>`")
    return token.strip()


class _Csrf(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _check_csrf(request: HttpRequest) -> None:
    """What Django does for pages. API views are exempt there, because a token needs no such protection; a cookie does."""
    check = _Csrf(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request)
    reason = check.process_view(request, lambda *_: None, (), {})  # type: ignore[arg-type]
    if reason:
        raise NotAuthorized(
            f"{reason}: send the header X-CSRFToken with the value of the cookie, or use a token instead of the session"
        )


def client_address_of(request: HttpRequest) -> str:
    """Who the request comes from: its peer, or whom a proxy in `trusted_proxies` names. Sign-in limits and audit log use it."""
    forwarded_for = request.headers.get("X-Forwarded-For", "")
    return client_address(request.META.get("REMOTE_ADDR", ""), forwarded_for, django_settings.MAGNETAR.trusted_proxies)


def _is_local(request: HttpRequest) -> bool:
    peer = request.META.get("REMOTE_ADDR", "")
    return is_local_caller(django_settings.MAGNETAR.host, peer, header_names=request.headers)
