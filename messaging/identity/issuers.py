"""Issuers of other organisations whose tokens a tenant accepts: their keys come from a JWKS document, and never from a token.

What is trusted is state of the control plane: workers fetch the documents, and brokers learn the keys with the feed, so that no
process that serves clients fetches anything. A token is judged by the issuers that have its claim `iss`, each with its audience,
its keys and the clock skew that it is allowed. Its role comes from the map of the issuer alone, and is one of the tenant's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from messaging.adminrpc.feed import IssuerState
from messaging.errors import AuthenticationFailed, InvalidValue
from messaging.identity.files import PublicKey
from messaging.identity.tokens import ISSUER, TOKEN_LENGTH_MAX, verified_claims
from messaging.json_types import converted
from messaging.permissions.model import Principal, tenant_of_key_role

KEYS_MAX = 16  # of one issuer
JWKS_BYTES_MAX = 64 << 10
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
LIFE_S_MAX = 7 * 86_400  # of a token: what is revoked at its issuer ends here by then
_OF_KEY = ("kty", "kid", "n", "e", "crv", "x", "y")  # the members of a public key that are stored


class TrustedIssuer(NamedTuple):
    """`roles`: value of the claim -> role of the tenant, in the order in which they are looked for."""

    name: str  # tenant/name
    tenant: str
    issuer: str
    audience: str
    role_claim: str
    roles: Mapping[str, str]
    clock_skew_ms: int
    keys: Mapping[str, PublicKey]  # by the id that tokens name

    @classmethod
    def from_state(cls, name: str, state: Mapping[str, Any]) -> TrustedIssuer:
        """A role that is none of the tenant's is left out, whoever wrote it."""
        given = converted(state, IssuerState)
        tenant = name.partition("/")[0]
        roles = {claim: role for claim, role in given.roles.items() if tenant_of_key_role(role) == tenant}
        keys = public_keys(given.keys)
        return cls(name, tenant, given.issuer, given.audience, given.role_claim, roles, given.clock_skew_s * 1000, keys)

    def key_name(self, key_id: str) -> str:
        """Of `Principal.issuer_key`: which key of which issuer signed its token. An issuer may give an id to another key, and one
        without an id is called by its place in the document: so the key itself is named, too."""
        return f"{self.name} {_fingerprint(self.keys[key_id])} {key_id}"

    def still_trusts(self, principal: Principal) -> bool:
        """Whether somebody who came with a token of this issuer would be let in with it again."""
        key_id = principal.issuer_key.split(" ", 2)[2]
        return key_id in self.keys and self.key_name(key_id) == principal.issuer_key and principal.role in self.roles.values()


def claimed_issuer(token: str) -> str:
    """What a token says about where it comes from; "" for one of ours, or for what is no token. Nothing is verified."""
    if len(token) > TOKEN_LENGTH_MAX:
        return ""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return ""
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) and issuer != ISSUER else ""


def issued_principal(token: str, issuers: Iterable[TrustedIssuer], now_ms: int) -> Principal:
    """The principal of a token, by the first of `issuers` whose key signed it for its audience. Raises `AuthenticationFailed`."""
    key_id = _key_id(token)
    for trusted in issuers:
        for name in (key_id,) if key_id else tuple(trusted.keys):
            key = trusted.keys.get(name)
            claims = verified_claims(token, key, trusted.issuer, trusted.audience) if key is not None else None
            if claims is not None:
                return _principal(trusted, name, claims, now_ms)
    raise AuthenticationFailed(
        "no key of this issuer that is known here signed the token for the audience that was agreed: compare issuer, audience and "
        "keys with those of the tenant; new keys are fetched every few minutes"
    )


def _principal(trusted: TrustedIssuer, key_id: str, claims: Mapping[str, Any], now_ms: int) -> Principal:
    expires_ms = _valid_until_ms(trusted, claims, now_ms)
    given = claims.get(trusted.role_claim)
    values = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    for value, role in trusted.roles.items():
        if value in values:
            return Principal(role, expires_ms=expires_ms, issuer_key=trusted.key_name(key_id))
    raise AuthenticationFailed(
        f"claim `{trusted.role_claim}` of the token has no value that tenant {trusted.tenant!r} maps to a role"
    )


def _valid_until_ms(trusted: TrustedIssuer, claims: Mapping[str, Any], now_ms: int) -> int:
    """With the clock skew. Raises `AuthenticationFailed` outside of the token's time, or where it has no end, or too late a one."""
    times = [claims.get(name) for name in ("exp", "nbf", "iat")]
    for value in times:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12):
            raise AuthenticationFailed("the token's `exp`, `nbf` or `iat` is not a time in seconds since 1970")
    expires_s, begins_s, _ = times
    if expires_s is None:
        raise AuthenticationFailed("the token has no end: tokens of other issuers need the claim `exp`")
    if expires_s * 1000 + trusted.clock_skew_ms <= now_ms:
        raise AuthenticationFailed("the token has expired: get a new one from its issuer")
    if expires_s * 1000 > now_ms + LIFE_S_MAX * 1000 + trusted.clock_skew_ms:
        raise AuthenticationFailed(f"the token is valid for more than {LIFE_S_MAX // 86_400} days: get one with an earlier end")
    if begins_s is not None and begins_s * 1000 > now_ms + trusted.clock_skew_ms:
        raise AuthenticationFailed("the token is not valid yet: compare the clocks, or allow its issuer more clock skew")
    return int(expires_s * 1000) + trusted.clock_skew_ms


def _key_id(token: str) -> str:
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, UnicodeError):
        return ""
    return key_id if isinstance(key_id, str) else ""


# --- keys -----------------------------------------------------------------------------------------------------------------------


def stored_keys(document: bytes) -> list[dict[str, str]]:
    """The usable keys of a JWKS document, as they are stored: RSA of 2048 to 8192 bits, and EC on P-256, for signatures.

    Raises `InvalidValue` for what is no such document, or has no usable key, or more than `KEYS_MAX`."""
    if len(document) > JWKS_BYTES_MAX:
        raise InvalidValue(f"the document has more than {JWKS_BYTES_MAX} bytes")
    try:
        content = json.loads(document)
    except (ValueError, RecursionError):
        raise InvalidValue("the document is not JSON") from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise InvalidValue("the document is no JWKS: it has no list `keys`")
    usable = []
    for number, each in enumerate(listed[: 4 * KEYS_MAX]):
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        key = {name: value for name in _OF_KEY if isinstance(value := each.get(name), str) and len(value) <= 2048}
        key.setdefault("kid", f"key {number + 1}")
        if _public_key(key) is not None:
            usable.append(key)
    if not 1 <= len(usable) <= KEYS_MAX:
        raise InvalidValue(
            f"the document has {len(usable)} keys that can be used (RSA, or EC on P-256); 1 to {KEYS_MAX} are needed"
        )
    return usable


def public_keys(stored: Sequence[Mapping[str, str]]) -> dict[str, PublicKey]:
    """By their ids; what is no key is left out."""
    keys = {each["kid"]: _public_key(each) for each in stored if "kid" in each}
    return {key_id: key for key_id, key in keys.items() if key is not None}


def _public_key(stored: Mapping[str, str]) -> PublicKey | None:
    try:
        if stored.get("kty") == "RSA":
            modulus, exponent = _number(stored["n"]), _number(stored["e"])
            if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX:
                return None
            return rsa.RSAPublicNumbers(exponent, modulus).public_key()
        if stored.get("kty") == "EC" and stored.get("crv") == "P-256":
            return ec.EllipticCurvePublicNumbers(_number(stored["x"]), _number(stored["y"]), ec.SECP256R1()).public_key()
    except (KeyError, ValueError, binascii.Error):
        return None
    return None


def _fingerprint(key: PublicKey) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:32]


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
