"""Who a request comes from: tokens of people's keys, and the service identities of our own processes.

A *token* is a JWT whose subject is a role; `TokenVerifier` turns it into a `Principal`. The algorithm follows from the type of the
key that verifies it (EC: ES256, RSA: RS256), never from the token, so ``alg: none`` and "public key as HMAC secret" cannot happen.
Whether a key was revoked is not known here: whoever holds the feed asks by `Principal.key_id`.

A *service token* lives for a minute, has the audience ``magnetar-rpc`` and is signed by the private key of one process
(`secrets/identity/<name>.key`). Neither kind is accepted in place of the other.

`create_secrets` makes what a first start needs. Files are 0600 in a folder that is 0700, each written whole or not at all, and
never replaced: two processes that start together end with the same secrets.
"""

from __future__ import annotations

import contextlib
import os
import secrets as random_secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from messaging.errors import AuthenticationFailed
from messaging.permissions.model import RESERVED_ROLE_PREFIXES, Principal
from messaging.settings import ConfigError, Settings

ISSUER = "magnetar"
SERVICE_AUDIENCE = "magnetar-rpc"
SERVICE_NAMES = ("web", "worker", "broker")
SUPERUSER_KEY_ID = "superuser-1"
SERVICE_TOKEN_LIFE_S = 60
_SERVICE_TOKEN_RENEW_S = 30  # left to live when a new one is made; more than any clock of one machine is wrong
_SERVICE_LIFE_MAX_S = 300  # a service token that claims to live longer was not made by us
_CLOCK_SKEW_MS = 60_000  # how far ahead the clock of a token's maker may be (`nbf`)
_TOKEN_LENGTH_MAX = 16_384
_REFUSED = "the token is not valid here: make a new key in the console, or with POST /api/v1/tenants/<tenant>/keys"

_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


def secrets_path(settings: Settings) -> Path:
    return settings.data_path / "secrets"


# --- first start -------------------------------------------------------------------------------------------------------------


def create_secrets(settings: Settings) -> None:
    """Makes every secret of a data directory that is not there yet. Idempotent; safe beside another process doing the same.

    Raises `OSError` where the directory cannot be written.
    """
    folder = secrets_path(settings)
    identity = folder / "identity"
    for path in (folder, identity):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    _create_key_pair(folder / "token-signing.pem", folder / "token-verify.pem")
    for name in SERVICE_NAMES:
        _create_key_pair(identity / f"{name}.key", identity / f"{name}.pub")
    _create(folder / "django-secret-key", random_secrets.token_urlsafe(50))
    _create(folder / "console-password", random_secrets.token_urlsafe(15))
    if not (folder / "superuser.token").exists():
        role = settings.superuser_roles[0] if settings.superuser_roles else "admin"
        _create(folder / "superuser.token", issue_token(settings, role, SUPERUSER_KEY_ID, int(time.time())))


def read_secret(settings: Settings, name: str) -> str:
    """The text of a file below secrets/, without the line end. `ConfigError` names a file that is not there."""
    path = secrets_path(settings) / name
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"secret file {path} cannot be read ({error.strerror}): start `magnetar standalone` once, or copy it there"
        ) from None


def _create_key_pair(private_path: Path, public_path: Path) -> None:
    if not private_path.exists():
        if public_path.exists():
            return  # this machine may verify but not sign
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        _create(private_path, pem.decode())
    if not public_path.exists():
        public = _private_key(private_path).public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        _create(public_path, pem.decode())


def _create(path: Path, text: str) -> None:
    """Writes a 0600 file whole, unless it exists: the hard link is the step that only one process can win."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{random_secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text.rstrip("\n") + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


# --- tokens of keys ----------------------------------------------------------------------------------------------------------


def issue_token(settings: Settings, role: str, key_id: str, now_s: int, expires_s: int | None = None) -> str:
    """A signed token for `role`. `expires_s` is a time (seconds since 1970), None for never. Needs the signing key: web only."""
    claims: dict[str, Any] = {"sub": role, "jti": key_id, "iat": now_s, "iss": ISSUER}
    if expires_s is not None:
        claims["exp"] = expires_s
    return jwt.encode(claims, _private_key(secrets_path(settings) / "token-signing.pem"), algorithm="ES256")


class _VerifyKey(NamedTuple):
    key: _PublicKey
    algorithm: str
    ours: bool


class TokenVerifier:
    """Verifies tokens; holds public keys only. Never blocks."""

    def __init__(self, own: _PublicKey, further: tuple[_PublicKey, ...] = ()) -> None:
        self._keys = [_VerifyKey(own, _algorithm(own), True), *(_VerifyKey(key, _algorithm(key), False) for key in further)]

    @classmethod
    def from_settings(cls, settings: Settings) -> TokenVerifier:
        """Reads secrets/token-verify.pem and `token_verify_keys`. Raises `ConfigError` naming a file that is missing or no key."""
        own = _public_key(secrets_path(settings) / "token-verify.pem")
        return cls(own, tuple(_public_key(Path(path)) for path in settings.token_verify_keys))

    def verify(self, token: str, now_ms: int) -> Principal:
        """The principal of a token, or `AuthenticationFailed`.

        Tokens of ours carry a key id. Those of further keys never do: what their ids mean is their issuer's affair, and must not
        collide with the ids of keys that we revoke.
        """
        for verify_key in self._keys:
            claims = _claims(token, verify_key.key, verify_key.algorithm, ISSUER if verify_key.ours else None)
            if claims is not None:
                break
        else:
            raise AuthenticationFailed(_REFUSED)
        expires_ms = _check_times(claims, now_ms)
        role, key_id = claims.get("sub"), claims.get("jti", "")
        if not isinstance(role, str) or not role or not isinstance(key_id, str):
            raise AuthenticationFailed("the token names no role: its claim `sub` is a text that is not empty")
        if role.startswith(RESERVED_ROLE_PREFIXES):
            raise AuthenticationFailed(
                f"no token may carry the role {role[:80]!r}: it belongs to people of the console or to our processes"
            )
        if verify_key.ours and not key_id:
            raise AuthenticationFailed(_REFUSED)
        return Principal(role, key_id if verify_key.ours else "", expires_ms=expires_ms)


# --- service identities ------------------------------------------------------------------------------------------------------

_service_tokens: dict[tuple[str, str], tuple[str, float]] = {}


def service_token(settings: Settings, name: str) -> str:
    """The service token of process `name` ("web", "worker", "broker"); cached, renewed half a minute before it ends."""
    now_s = time.time()
    cached = _service_tokens.get((settings.data_dir, name))
    if cached is not None and now_s < cached[1] <= now_s + SERVICE_TOKEN_LIFE_S:
        return cached[0]
    token = make_service_token(_private_key(secrets_path(settings) / "identity" / f"{name}.key"), name, int(now_s))
    _service_tokens[(settings.data_dir, name)] = (token, now_s + SERVICE_TOKEN_LIFE_S - _SERVICE_TOKEN_RENEW_S)
    return token


def make_service_token(key: ec.EllipticCurvePrivateKey, name: str, now_s: int) -> str:
    claims = {"sub": f"service:{name}", "aud": SERVICE_AUDIENCE, "iat": now_s, "exp": now_s + SERVICE_TOKEN_LIFE_S}
    return jwt.encode(claims, key, algorithm="ES256")


class ServiceVerifier:
    """Verifies service tokens against the public keys in secrets/identity/. A name is bound to its own key."""

    def __init__(self, keys: Mapping[str, _PublicKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def from_settings(cls, settings: Settings) -> ServiceVerifier:
        folder = secrets_path(settings) / "identity"
        keys = {path.stem: _public_key(path) for path in sorted(folder.glob("*.pub"))}
        if not keys:
            raise ConfigError(f"no service identity in {folder}: start `magnetar standalone` once, or copy the *.pub files there")
        return cls(keys)

    def verify(self, token: str, now_ms: int) -> Principal:
        """The principal ``service:<name>``, or `AuthenticationFailed`."""
        for name, key in self._keys.items():
            claims = _claims(token, key, _algorithm(key), None, SERVICE_AUDIENCE)
            if claims is None or claims.get("sub") != f"service:{name}":
                continue
            expires_ms = _check_times(claims, now_ms)
            issued_s = claims.get("iat")
            if not isinstance(issued_s, int) or not 0 < expires_ms <= (issued_s + _SERVICE_LIFE_MAX_S) * 1000:
                break
            return Principal(f"service:{name}", service=True, expires_ms=expires_ms)
        raise AuthenticationFailed("this is for the processes of the platform: the service token is not valid")


# --- shared ------------------------------------------------------------------------------------------------------------------


def _claims(token: str, key: _PublicKey, algorithm: str, issuer: str | None, audience: str | None = None) -> dict[str, Any] | None:
    """Claims of a token that `key` signed; None for any other text. Times are checked by the caller, who is handed the clock.

    A token with an audience is refused where none is asked for: it was made for another service.
    """
    if len(token) > _TOKEN_LENGTH_MAX:
        return None
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_sub": False, "verify_jti": False}
    try:
        return jwt.decode(token, key, algorithms=[algorithm], audience=audience, issuer=issuer, options=options)
    except (jwt.PyJWTError, ValueError, UnicodeError):
        return None


def _check_times(claims: Mapping[str, Any], now_ms: int) -> int:
    """The expiry in ms since 1970, 0 for never."""
    expires_s, begins_s = claims.get("exp"), claims.get("nbf")
    for value in (expires_s, begins_s):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12):
            raise AuthenticationFailed("the token's `exp` or `nbf` is no time in seconds since 1970")
    if expires_s is not None and expires_s * 1000 <= now_ms:
        raise AuthenticationFailed("the token has expired: make a new key")
    if begins_s is not None and begins_s * 1000 > now_ms + _CLOCK_SKEW_MS:
        raise AuthenticationFailed("the token is not valid yet: compare the clocks of the two machines")
    return int(expires_s * 1000) if expires_s is not None else 0


def _algorithm(key: _PublicKey) -> str:
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"


def _public_key(path: Path) -> _PublicKey:
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"key file {path} cannot be read ({error.strerror}): start `magnetar standalone` once, or copy the key there"
        ) from None
    except ValueError:
        raise ConfigError(f"key file {path} holds no public key in PEM form") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ConfigError(f"key file {path} holds a key of another kind: use RSA of at least 2048 bits, or EC P-256")


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(f"key file {path} cannot be read ({error.strerror}): only the machine that made it can sign") from None
    except ValueError:
        raise ConfigError(f"key file {path} holds no private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"key file {path} holds no EC key")
    return key
