"""Tokens of other issuers: judged by keys, audience, times and the map of roles, and by nothing that they say of themselves."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from messaging.errors import AuthenticationFailed, InvalidValue
from messaging.identity.issuers import KEYS_MAX, LIFE_S_MAX, TrustedIssuer, claimed_issuer, issued_principal, stored_keys

NOW_S = 1_800_000_000
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"iss": "https://login.acme.example", "aud": "magnetar", "sub": "orders", "exp": NOW_S + 600}


def jwk(key: Any, kid: str) -> dict[str, str]:
    kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid}


STATE: dict[str, Any] = {
    "issuer": CLAIMS["iss"],
    "audience": "magnetar",
    "role_claim": "sub",
    "roles": {"orders": "app@acme", "admins": "boss@acme", "foreign": "app@other"},
    "clock_skew_s": 30,
    "keys": stored_keys(json.dumps({"keys": [jwk(RSA_KEY, "r1"), jwk(EC_KEY, "e1")]}).encode()),
}
ISSUER = TrustedIssuer.from_state("acme/corp", STATE)


def token(key: Any = RSA_KEY, kid: str | None = "r1", algorithm: str = "RS256", **claims: Any) -> str:
    given = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={} if kid is None else {"kid": kid})


def principal(text: str, now_s: float = NOW_S, issuer: TrustedIssuer = ISSUER) -> Any:
    return issued_principal(text, [issuer], int(now_s * 1000))


def test_a_token_has_the_role_that_its_claim_is_mapped_to() -> None:
    by_rsa = principal(token())
    assert (by_rsa.role, by_rsa.tenant, by_rsa.key_id) == ("app@acme", "acme", "")
    assert by_rsa.issuer_key.startswith("acme/corp ") and by_rsa.issuer_key.endswith(" r1")
    assert by_rsa.expires_ms == (NOW_S + 600 + 30) * 1000
    assert principal(token(EC_KEY, "e1", "ES256")).issuer_key.endswith(" e1")
    assert principal(token(kid=None)).role == "app@acme", "a token that names no key is tried with all of them"
    groups = TrustedIssuer.from_state("acme/corp", {**STATE, "role_claim": "groups"})
    assert principal(token(groups=["x", "admins", {}, "orders"]), issuer=groups).role == "app@acme", "the order is that of the map"


WRONG = [
    token(sub="somebody"),
    token(sub="foreign"),
    token(sub=None),
    token(sub=["orders", 1], exp=None),
    token(aud="elsewhere"),
    token(aud=None),
    token(iss="https://evil.example"),
    token(exp=NOW_S - 31),
    token(exp=None),
    token(exp=NOW_S + LIFE_S_MAX + 31),
    token(exp=True),
    token(nbf=NOW_S + 31),
    token(rsa.generate_private_key(65537, 2048)),
    token(kid="unknown"),
    token(kid="e1"),
    jwt.encode(CLAIMS, None, "none", headers={"kid": "r1"}),  # type: ignore[arg-type]
    "",
    "a.b.c",
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_not_valid_is_refused(number: int) -> None:
    with pytest.raises(AuthenticationFailed):
        principal(WRONG[number])


def test_the_public_key_is_no_secret_to_sign_with() -> None:
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    text = part({"alg": "HS256", "typ": "JWT", "kid": "r1"}) + b"." + part(CLAIMS)
    forged = text + b"." + base64.urlsafe_b64encode(hmac.new(pem, text, hashlib.sha256).digest()).rstrip(b"=")
    with pytest.raises(AuthenticationFailed):
        principal(forged.decode())


def test_clocks_may_differ_as_much_as_was_agreed() -> None:
    assert principal(token(exp=NOW_S - 29)).role == principal(token(nbf=NOW_S + 29)).role == "app@acme"


def test_a_key_or_role_that_is_gone_is_trusted_no_more() -> None:
    who = principal(token())
    assert ISSUER.still_trusts(who)
    assert not TrustedIssuer.from_state("acme/corp", {**STATE, "keys": [STATE["keys"][1]]}).still_trusts(who)
    assert not TrustedIssuer.from_state("acme/corp", {**STATE, "roles": {"orders": "other@acme"}}).still_trusts(who)


@pytest.mark.parametrize("kid", ["r1", "r 1", None])
def test_another_key_of_the_same_id_is_not_the_key_that_signed(kid: str | None) -> None:
    """One without an id is called by its place in the document."""

    def issuer(key: Any) -> TrustedIssuer:
        document = json.dumps({"keys": [{name: value for name, value in jwk(key, kid or "").items() if value}]}).encode()
        return TrustedIssuer.from_state("acme/corp", {**STATE, "keys": stored_keys(document)})

    who = principal(token(kid=kid), issuer=issuer(RSA_KEY))
    assert issuer(RSA_KEY).still_trusts(who)
    assert not issuer(rsa.generate_private_key(65537, 2048)).still_trusts(who)


def test_each_audience_has_its_issuer() -> None:
    other = TrustedIssuer.from_state("other/corp", {**STATE, "audience": "other", "roles": {"orders": "app@other"}})
    assert issued_principal(token(aud="other"), [ISSUER, other], NOW_S * 1000).role == "app@other"


def test_what_a_token_says_of_its_issuer() -> None:
    assert claimed_issuer(token()) == CLAIMS["iss"]
    for text in (token(iss="magnetar"), token(iss=None), "", "a.b", "a.!.c", "a." + "W" * 40_000 + ".c", "a.WzFd.c"):
        assert claimed_issuer(text) == ""


# --- documents


def test_only_keys_that_can_be_used_are_kept() -> None:
    small = rsa.generate_private_key(65537, 1024)
    keys = [
        jwk(RSA_KEY, "r1") | {"alg": "RS256", "use": "sig", "x5c": ["..."]},
        jwk(RSA_KEY, "enc") | {"use": "enc"},
        jwk(small, "small"),
        jwk(ec.generate_private_key(ec.SECP384R1()), "p384"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "off the curve"},
        {"kty": "RSA", "kid": "none"},
        "nothing",
    ]
    (kept,) = stored_keys(json.dumps({"keys": keys}).encode())
    assert kept["kid"] == "r1" and kept.keys() == {"kty", "kid", "n", "e"}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "more than"),
        (b"[" * 50_000, "not JSON"),
        (b"[]", "no JWKS"),
        (b'{"keys": {}}', "no JWKS"),
        (b'{"keys": []}', "0 keys"),
        (json.dumps({"keys": [jwk(EC_KEY, f"k{number}") for number in range(KEYS_MAX + 1)]}).encode(), "17 keys"),
    ],
    ids=lambda value: value if isinstance(value, str) else "document",
)
def test_documents_that_cannot_be(document: bytes, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        stored_keys(document)
