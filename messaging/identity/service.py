"""Service tokens, which identify our own processes.

A *service token* is valid for a minute, has the audience ``magnetar-rpc`` and is signed by the private key of one process
(`secrets/identity/<name>.key`). Service tokens and tokens of keys are not interchangeable.

`<name>.pub` contains the public keys of a process, newest first: while its key is rotated the former one is accepted beside it.
Running processes notice changed files within a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from messaging.errors import AuthenticationFailed
from messaging.identity.files import PublicKey, private_key, public_keys, secrets_path
from messaging.identity.tokens import check_times, verified_claims
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings

SERVICE_AUDIENCE = "magnetar-rpc"
SERVICE_NAMES = ("web", "worker", "broker", "cli")
SERVICE_TOKEN_LIFE_S = 60
_RENEW_S = 30  # left to live when a new one is made; more than any clock of one machine is wrong
LOOK_S = 1.0
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


Stamp = tuple[tuple[str, int, int, int], ...]


class ServiceVerifier:
    """Verifies service tokens against the public keys in secrets/identity/. A name is bound to its own keys."""

    def __init__(self, folder: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Raises `ConfigError` for a folder without keys, or with a file that has none."""
        self._folder = folder
        self._clock_s = clock_s
        self._stamp = self._look()
        self._keys = self._load()
        self._looked_s = clock_s()

    @classmethod
    def from_settings(cls, settings: Settings, clock_s: Callable[[], float] = time.monotonic) -> ServiceVerifier:
        return cls(secrets_path(settings) / "identity", clock_s)

    def verify(self, token: str, now_ms: int) -> Principal:
        """The principal ``service:<name>``, or `AuthenticationFailed`. Looks at the files once a second at most, and for a token
        that no key signed."""
        if self._clock_s() >= self._looked_s + LOOK_S:
            self._renew()
        verified = self._verified(token)
        if verified is None and self._renew():
            verified = self._verified(token)
        if verified is not None:
            name, claims = verified
            expires_ms = check_times(claims, now_ms)
            issued_s = claims.get("iat")
            if isinstance(issued_s, int) and 0 < expires_ms <= (issued_s + _LIFE_MAX_S) * 1000:
                return Principal(f"service:{name}", service=True, expires_ms=expires_ms)
        raise AuthenticationFailed("the service token is not valid: only processes of the platform may use the admin RPC")

    def _verified(self, token: str) -> tuple[str, dict[str, Any]] | None:
        for name, keys in self._keys.items():
            for key in keys:
                claims = verified_claims(token, key, None, SERVICE_AUDIENCE)
                if claims is not None and claims.get("sub") == f"service:{name}":
                    return name, claims
        return None

    def _renew(self) -> bool:
        """Whether there is anything new."""
        self._looked_s = self._clock_s()
        stamp = self._look()
        if stamp == self._stamp:
            return False
        try:
            self._keys = self._load()
        except ConfigError:
            return False  # half-written, perhaps: looked at again
        self._stamp = stamp
        return True

    def _look(self) -> Stamp:
        try:
            seen = [(path.name, path.stat()) for path in sorted(self._folder.glob("*.pub"))]
        except OSError:
            return ()
        return tuple((name, status.st_mtime_ns, status.st_size, status.st_ino) for name, status in seen)

    def _load(self) -> dict[str, list[PublicKey]]:
        keys = {path.stem: public_keys(path) for path in sorted(self._folder.glob("*.pub"))}
        if not keys:
            raise ConfigError(
                f"no service identity in {self._folder}: start `magnetar standalone` once, or copy the *.pub files there"
            )
        return keys
