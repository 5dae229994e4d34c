"""Tokens of another issuer: only for this platform, and never for a role of ours."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from messaging.errors import AuthenticationFailed
from messaging.identity import TokenVerifier
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings
from tests.messaging.identity.keys import NOW_MS, NOW_S, external, pem


def test_further_keys_are_accepted_with_the_algorithm_of_their_type(settings: Settings, tmp_path: Path) -> None:
    rsa_key, ec_key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    paths = []
    for name, key in (("rsa", rsa_key), ("ec", ec_key)):
        (tmp_path / name).write_bytes(pem(key))
        paths.append(str(tmp_path / name))
    trusting = external(settings, *paths, token_verify_roles=("ops=admin",))
    verifier = TokenVerifier.from_settings(trusting)
    claims = {"sub": "app", "jti": "superuser-1", "iss": "someone", "aud": "magnetar", "exp": NOW_S + 5}
    for token in (jwt.encode(claims, rsa_key, algorithm="RS256"), jwt.encode(claims, ec_key, algorithm="ES256")):
        # no key id: their ids must not collide with those of keys that we revoke
        assert verifier.verify(token, NOW_MS) == Principal("external:app", "", expires_ms=NOW_MS + 5000)
    with_id = jwt.encode(claims, ec_key, algorithm="ES256", headers={"kid": "theirs"})
    assert verifier.verify(with_id, NOW_MS).role == "external:app"
    with pytest.raises(AuthenticationFailed):
        verifier.verify(jwt.encode(claims, rsa_key, algorithm="RS512"), NOW_MS)


@pytest.fixture
def issuer_key(tmp_path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "issuer").write_bytes(pem(key))
    return key


THEIRS = {"sub": "app", "iss": "someone", "aud": "magnetar", "exp": NOW_S + 5}


@pytest.mark.parametrize(
    "claims",
    [
        {**THEIRS, "iss": "magnetar"},
        {**THEIRS, "iss": "elsewhere"},
        {**THEIRS, "aud": "another-service"},
        {name: value for name, value in THEIRS.items() if name != "iss"},
        {name: value for name, value in THEIRS.items() if name != "aud"},
        {name: value for name, value in THEIRS.items() if name != "sub"},
        {**THEIRS, "sub": ["admin"]},
        {**THEIRS, "sub": "x" * 1000},
    ],
)
def test_of_another_issuer_only_tokens_for_this_platform_are_accepted(
    settings: Settings, tmp_path: Path, issuer_key: ec.EllipticCurvePrivateKey, claims: dict[str, object]
) -> None:
    verifier = TokenVerifier.from_settings(external(settings, str(tmp_path / "issuer")))
    assert verifier.verify(jwt.encode(THEIRS, issuer_key, algorithm="ES256"), NOW_MS).role == "external:app"
    with pytest.raises(AuthenticationFailed):
        verifier.verify(jwt.encode(claims, issuer_key, algorithm="ES256"), NOW_MS)


@pytest.mark.parametrize("claimed", ["admin", "app@acme", "anonymous", "user:ada", "service:web"])
def test_another_issuer_cannot_name_a_role_of_ours(
    settings: Settings, tmp_path: Path, issuer_key: ec.EllipticCurvePrivateKey, claimed: str
) -> None:
    verifier = TokenVerifier.from_settings(external(settings, str(tmp_path / "issuer")))
    principal = verifier.verify(jwt.encode({**THEIRS, "sub": claimed}, issuer_key, algorithm="ES256"), NOW_MS)
    assert principal.role == f"external:{claimed}" and principal.tenant == f"external:{claimed}"


def test_a_setting_maps_claims_of_another_issuer_to_roles(
    settings: Settings, tmp_path: Path, issuer_key: ec.EllipticCurvePrivateKey
) -> None:
    mapped = external(
        settings, str(tmp_path / "issuer"), token_verify_role_claim="team", token_verify_roles=("ops=admin", "web=user:ada")
    )
    verifier = TokenVerifier.from_settings(mapped)
    assert verifier.verify(jwt.encode({**THEIRS, "team": "ops"}, issuer_key, algorithm="ES256"), NOW_MS).role == "admin"
    with pytest.raises(AuthenticationFailed, match="user:ada"):
        verifier.verify(jwt.encode({**THEIRS, "team": "web"}, issuer_key, algorithm="ES256"), NOW_MS)


def test_keys_of_another_issuer_need_its_name_and_an_audience(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token_verify_issuer and token_verify_audience"):
        Settings(data_dir=str(tmp_path), token_verify_keys=("issuer.pem",))
    with pytest.raises(ConfigError, match="ops"):
        Settings(data_dir=str(tmp_path), token_verify_roles=("ops",))
