"""Service tokens, which identify our own processes.

A *service token* is valid for a minute, has the audience ``magnetar-rpc`` and is signed by the private key of one process
(`secrets/identity/<name>.key`). Service tokens and tokens of keys are not interchangeable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from messaging.errors import AuthenticationFailed
from messaging.identity.files import PublicKey, private_key, public_key, secrets_path
from messaging.identity.tokens import check_times, verified_claims
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings

SERVICE_AUDIENCE = "magnetar-rpc"
SERVICE_NAMES = ("web", "worker", "broker")
SERVICE_TOKEN_LIFE_S = 60
_RENEW_S = 30  # left to live when a new one is made; more than any clock of one machine is wrong
_LIFE_MAX_S = 300  # a service token that claims to live longer was not made by us


class _Cached(NamedTuple):
    token: str
    renew_at_s: float


_service_tokens: dict[tuple[str, str], _Cached] = {}


def service_token(settings: Settings, name: str) -> str:
    """The service token of process `name` ("web", "worker", "broker"); cached, renewed half a minute before it ends."""
    now_s = time.time()
    cached = _service_tokens.get((settings.data_dir, name))
    if cached is not None and now_s < cached.renew_at_s <= now_s + SERVICE_TOKEN_LIFE_S:
        return cached.token
    token = make_service_token(private_key(secrets_path(settings) / "identity" / f"{name}.key"), name, int(now_s))
    _service_tokens[(settings.data_dir, name)] = _Cached(token, now_s + SERVICE_TOKEN_LIFE_S - _RENEW_S)
    return token


def make_service_token(key: ec.EllipticCurvePrivateKey, name: str, now_s: int) -> str:
    claims = {"sub": f"service:{name}", "aud": SERVICE_AUDIENCE, "iat": now_s, "exp": now_s + SERVICE_TOKEN_LIFE_S}
    return jwt.encode(claims, key, algorithm="ES256")


class ServiceVerifier:
    """Verifies service tokens against the public keys in secrets/identity/. A name is bound to its own key."""

    def __init__(self, keys: Mapping[str, PublicKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def from_settings(cls, settings: Settings) -> ServiceVerifier:
        folder = secrets_path(settings) / "identity"
        keys = {path.stem: public_key(path) for path in sorted(folder.glob("*.pub"))}
        if not keys:
            raise ConfigError(f"no service identity in {folder}: start `magnetar standalone` once, or copy the *.pub files there")
        return cls(keys)

    def verify(self, token: str, now_ms: int) -> Principal:
        """The principal ``service:<name>``, or `AuthenticationFailed`."""
        for name, key in self._keys.items():
            claims = verified_claims(token, key, None, SERVICE_AUDIENCE)
            if claims is None or claims.get("sub") != f"service:{name}":
                continue
            expires_ms = check_times(claims, now_ms)
            issued_s = claims.get("iat")
            if not isinstance(issued_s, int) or not 0 < expires_ms <= (issued_s + _LIFE_MAX_S) * 1000:
                break
            return Principal(f"service:{name}", service=True, expires_ms=expires_ms)
        raise AuthenticationFailed("the service token is not valid: only processes of the platform may use the admin RPC")
