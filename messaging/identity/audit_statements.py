"""Signed statements about the audit log: which hash its record of a number has. Whoever keeps one elsewhere notices when the log
was rewritten.

A statement is a JWT, signed by a key of its own (secrets/audit-signing.pem) that no token is signed by. It is verified with the
public key, secrets/audit-verify.pem, by our command or by any library for JWTs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import jwt
import msgspec

from messaging.identity import files, signing_keys
from messaging.identity.files import secrets_path
from messaging.json_types import converted
from messaging.settings import Settings

SIGNING_FILE, VERIFY_FILE = "audit-signing.pem", "audit-verify.pem"
STATEMENT_LENGTH_MAX = 4_096
_AUDIENCE = "magnetar-audit"
_TYPE = "magnetar-audit+jwt"

Kind = Literal["head", "checkpoint"]


class Statement(msgspec.Struct, frozen=True):
    """`kind` "head": the newest record was `sequence`. "checkpoint": the records up to it were deleted by retention. `at`: when
    that record was written, ISO 8601. `iat`: when this was signed, seconds since 1970."""

    kind: Kind
    sequence: int
    hash: str
    at: str
    iat: int


def sign(settings: Settings, statement: Statement) -> str:
    """Raises `ConfigError` on a machine that does not have the key."""
    key = files.private_key(secrets_path(settings) / SIGNING_FILE)
    claims: dict[str, Any] = {"iss": "magnetar", "aud": _AUDIENCE, **msgspec.structs.asdict(statement)}
    headers = {"typ": _TYPE, "kid": signing_keys.key_id(key.public_key())}
    return jwt.encode(claims, key, algorithm="ES256", headers=headers)


def verify(path: Path, text: str) -> Statement:
    """`path`: the file of the public key. Raises `ValueError` for what that key did not sign, `ConfigError` for the file."""
    if len(text) > STATEMENT_LENGTH_MAX:
        raise ValueError(f"a statement has at most {STATEMENT_LENGTH_MAX} characters")
    key = files.public_key(path)
    try:
        claims = jwt.decode(text, key, algorithms=["ES256"], audience=_AUDIENCE, issuer="magnetar", options={"verify_iat": False})
        return converted({name: claims.get(name) for name in Statement.__struct_fields__}, Statement)
    except (jwt.PyJWTError, msgspec.ValidationError) as error:
        raise ValueError(f"the signature of a statement does not fit: {error}") from None


def verify_path(settings: Settings) -> Path:
    return secrets_path(settings) / VERIFY_FILE
