"""Tokens of keys: made by the web process, verified everywhere.

The algorithm follows from the type of the key that verifies a token (EC: ES256, RSA: RS256), never from the token, so ``alg: none``
and "public key as HMAC secret" cannot happen. Whether a key was revoked is not known here: whoever holds the feed asks by
`Principal.key_id`.

Tokens of another issuer (`token_verify_keys`) are verified with its keys, issuer and audience. Their roles are kept apart: the
claim `token_verify_role_claim` becomes the role that `token_verify_roles` maps it to, else ``external:`` and the claim, which no
key of a tenant and no person can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa

from messaging.errors import AuthenticationFailed
from messaging.identity import files, signing_keys
from messaging.identity.files import PublicKey, secrets_path
from messaging.permissions.model import EXTERNAL_ROLE_PREFIX, RESERVED_ROLE_PREFIXES, Principal
from messaging.settings import ConfigError, Settings

log = structlog.get_logger("identity")

ISSUER = "magnetar"
CLOCK_SKEW_MS = 60_000  # how far ahead the clock of a token's maker may be (`nbf`)
RELOAD_MS = 1_000  # how soon a change of the file of keys is noticed
TOKEN_LENGTH_MAX = 16_384
ROLE_LENGTH_MAX = 600  # as long as a key of ours can have one
_REFUSED = "the token is not valid here: make a new key in the console, or with POST /api/v1/tenants/<tenant>/keys"


def issue_token(settings: Settings, role: str, key_id: str, now_s: int, expires_s: int | None = None) -> str:
    """A signed token for `role`. `expires_s` is a time (seconds since 1970), None for never. Needs the signing key: web only."""
    claims: dict[str, Any] = {"sub": role, "jti": key_id, "iat": now_s, "iss": ISSUER}
    if expires_s is not None:
        claims["exp"] = expires_s
    key = files.private_key(secrets_path(settings) / signing_keys.SIGNING_FILE)
    return jwt.encode(claims, key, algorithm="ES256", headers={"kid": signing_keys.key_id(key.public_key())})


class External(NamedTuple):
    """Another issuer whose tokens are accepted: the settings `token_verify_*`."""

    keys: tuple[PublicKey, ...]
    issuer: str
    audience: str
    role_claim: str
    roles: Mapping[str, str]  # claim -> role

    @classmethod
    def from_settings(cls, settings: Settings) -> External:
        """Raises `ConfigError` naming a file that is missing or holds no key."""
        return cls(
            tuple(files.public_key(Path(path)) for path in settings.token_verify_keys),
            settings.token_verify_issuer,
            settings.token_verify_audience,
            settings.token_verify_role_claim,
            dict(text.split("=", 1) for text in settings.token_verify_roles),  # the settings saw to the "="
        )


class TokenVerifier:
    """Verifies tokens; holds public keys only. Blocks for a look at the file of our keys only."""

    def __init__(self, settings: Settings) -> None:
        """Raises `ConfigError` naming a file that is missing or no key."""
        self.revision = 0  # of the keys held
        self._settings = settings
        self._path = secrets_path(settings) / signing_keys.VERIFY_FILE
        self._stamp = _stamp(self._path)
        self._own = signing_keys.verify_keys(settings)
        self._looked_ms = 0
        self._external = External.from_settings(settings)

    @classmethod
    def from_settings(cls, settings: Settings) -> TokenVerifier:
        return cls(settings)

    def verify(self, token: str, now_ms: int) -> Principal:
        """The principal of a token, or `AuthenticationFailed`.

        Tokens of ours carry the id of a key. Those of another issuer never do: what their ids mean is that issuer's affair, and
        must not collide with the ids of keys that we revoke.
        """
        self.reload(now_ms)
        for key_id, key in self._candidates(token):
            claims = verified_claims(token, key, ISSUER)
            if claims is not None:
                return _own_principal(claims, key_id, now_ms)
        return self._external_principal(token, now_ms)

    def reload(self, now_ms: int) -> None:
        """Applies a changed file of keys. One that cannot be read changes nothing."""
        if abs(now_ms - self._looked_ms) < RELOAD_MS:
            return
        self._looked_ms = now_ms
        self._reload()

    def _reload(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        try:
            self._own, self._stamp = signing_keys.verify_keys(self._settings), stamp
            self.revision += 1
        except ConfigError as error:
            log.error("identity.keys_unreadable", error=str(error))

    def still_verifies(self, principal: Principal) -> bool:
        """Whether the key that signed the token of `principal` is still in use; True for whoever came without a token of ours."""
        return not principal.signing_key_id or principal.signing_key_id in self._own

    def _candidates(self, token: str) -> list[tuple[str, PublicKey]]:
        """The key that the token names; all of ours for one that names none (made before keys had ids)."""
        key_id = _named_key(token)
        if key_id is None:
            return list(self._own.items())
        if key_id not in self._own:
            self._reload()  # the web process may have begun to sign with it a moment ago
        key = self._own.get(key_id)
        return [] if key is None else [(key_id, key)]

    def _external_principal(self, token: str, now_ms: int) -> Principal:
        external = self._external
        for key in external.keys:
            claims = verified_claims(token, key, external.issuer, external.audience)
            if claims is not None:
                break
        else:
            raise AuthenticationFailed(_REFUSED)
        claimed = claims.get(external.role_claim)
        if not isinstance(claimed, str) or not claimed:
            raise AuthenticationFailed(f"the token has no role: its claim `{external.role_claim}` must be a non-empty text")
        role = external.roles.get(claimed, EXTERNAL_ROLE_PREFIX + claimed)
        check_role(role, "a token")
        return Principal(role, expires_ms=check_times(claims, now_ms))


def _own_principal(claims: Mapping[str, Any], signing_key_id: str, now_ms: int) -> Principal:
    role, key_id = claims.get("sub"), claims.get("jti")
    if not isinstance(role, str) or not role or not isinstance(key_id, str) or not key_id:
        raise AuthenticationFailed(_REFUSED)
    check_role(role, "a token")
    try:
        expires_ms = check_times(claims, now_ms)
    except AuthenticationFailed as error:
        raise error.of(role, key_id) from None
    return Principal(role, key_id, expires_ms=expires_ms, signing_key_id=signing_key_id)


def check_role(role: str, carrier: str) -> None:
    """Raises `AuthenticationFailed` for a role that nobody may have by `carrier`, such as a token."""
    if role.startswith(RESERVED_ROLE_PREFIXES):
        raise AuthenticationFailed(
            f"role {role[:80]!r} is not allowed in {carrier}: it is reserved for console users and processes of the platform"
        )
    if len(role) > ROLE_LENGTH_MAX:
        raise AuthenticationFailed(f"the role of {carrier} has {len(role)} characters; at most {ROLE_LENGTH_MAX} are allowed")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _named_key(token: str) -> str | None:
    if len(token) > TOKEN_LENGTH_MAX:
        return None
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, UnicodeError):
        return None
    return key_id if isinstance(key_id, str) else None


# --- shared with service tokens ------------------------------------------------------------------------------------------------


def verified_claims(token: str, key: PublicKey, issuer: str | None, audience: str | None = None) -> dict[str, Any] | None:
    """Claims of a token that `key` signed; None for any other text. Times are checked by the caller, who receives the time as an
    argument.

    A token with an audience is refused where none is asked for: it was made for another service.
    """
    if len(token) > TOKEN_LENGTH_MAX:
        return None
    algorithm = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_sub": False, "verify_jti": False}
    try:
        return jwt.decode(token, key, algorithms=[algorithm], audience=audience, issuer=issuer, options=options)
    except (jwt.PyJWTError, ValueError, UnicodeError):
        return None


def check_times(claims: Mapping[str, Any], now_ms: int) -> int:
    """The expiry in ms since 1970, 0 for never. Raises `AuthenticationFailed` outside of the token's time."""
    expires_s, begins_s = claims.get("exp"), claims.get("nbf")
    for value in (expires_s, begins_s):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12):
            raise AuthenticationFailed("the token's `exp` or `nbf` is not a time in seconds since 1970")
    if expires_s is not None and expires_s * 1000 <= now_ms:
        raise AuthenticationFailed("the token has expired: create a new key")
    if begins_s is not None and begins_s * 1000 > now_ms + CLOCK_SKEW_MS:
        raise AuthenticationFailed("the token is not valid yet: compare the clocks of the two machines")
    return int(expires_s * 1000) if expires_s is not None else 0
