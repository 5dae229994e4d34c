"""Tokens and service identities: what is accepted, and everything that must not be."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from messaging import identity
from messaging.errors import AuthenticationFailed
from messaging.identity import ServiceVerifier, TokenVerifier, create_secrets, issue_token, service_token
from messaging.identity.files import private_key
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings
from tests.messaging.identity.keys import NOW_MS, NOW_S, own_key


def test_secrets_are_private_complete_and_kept(settings: Settings) -> None:
    folder = identity.secrets_path(settings)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    pairs = {f"identity/{name}.{kind}" for name in ("web", "worker", "broker", "cli") for kind in ("key", "pub")}
    rest = {
        "audit-signing.pem",
        "audit-verify.pem",
        "token-signing.pem",
        "token-verify.pem",
        "django-secret-key",
        "superuser.token",
        "console-password",
        "platform-id",
    }
    assert set(files) == pairs | rest
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder / "identity")} == {0o700}
    create_secrets(settings)
    assert {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


def test_two_first_starts_at_once_end_with_one_set(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    failures: list[BaseException] = []

    def start() -> None:
        try:
            create_secrets(settings)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    token = identity.read_secret(settings, "superuser.token")
    assert TokenVerifier.from_settings(settings).verify(token, NOW_MS) == Principal("admin", "superuser-1")
    assert ServiceVerifier.from_settings(settings)
    assert not list(tmp_path.rglob(".*"))


def test_a_machine_with_the_public_key_alone_verifies_but_makes_no_key(settings: Settings) -> None:
    signing = identity.secrets_path(settings) / "token-signing.pem"
    token = issue_token(settings, "app@acme", "k1", NOW_S)
    signing.unlink()
    create_secrets(settings)
    assert not signing.exists()
    assert TokenVerifier.from_settings(settings).verify(token, NOW_MS).role == "app@acme"
    with pytest.raises(ConfigError, match=r"token-signing\.pem"):
        issue_token(settings, "app@acme", "k2", NOW_S)


def test_superuser_role_follows_the_setting(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), superuser_roles=("root", "admin"))
    create_secrets(settings)
    token = identity.read_secret(settings, "superuser.token")
    assert TokenVerifier.from_settings(settings).verify(token, NOW_MS).role == "root"


def test_token_round_trip(settings: Settings) -> None:
    verifier = TokenVerifier.from_settings(settings)
    token = issue_token(settings, "app@acme", "k1", NOW_S, NOW_S + 10)
    assert verifier.verify(token, NOW_MS) == Principal("app@acme", "k1", expires_ms=NOW_MS + 10_000)
    assert verifier.verify(token, NOW_MS + 9_999).role == "app@acme"
    with pytest.raises(AuthenticationFailed, match="expired"):
        verifier.verify(token, NOW_MS + 10_000)


def test_not_before_allows_for_skewed_clocks_only(settings: Settings) -> None:
    verifier = TokenVerifier.from_settings(settings)
    claims = {"sub": "a", "jti": "k", "iss": "magnetar", "nbf": NOW_S}
    token = jwt.encode(claims, own_key(settings), algorithm="ES256")
    assert verifier.verify(token, NOW_MS - 60_000).role == "a"
    with pytest.raises(AuthenticationFailed, match="not valid yet"):
        verifier.verify(token, NOW_MS - 61_000)


def unsigned(claims: dict[str, object]) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


GOOD = {"sub": "admin", "jti": "superuser-1", "iss": "magnetar", "iat": NOW_S}


def hmac_with_the_public_key(settings: Settings) -> str:
    """The classic confusion: HS256 with the PEM of the public key as the secret. Made by hand; PyJWT refuses to."""
    import hashlib
    import hmac

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    secret = (identity.secrets_path(settings) / "token-verify.pem").read_bytes()
    body = f"{part(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{part(json.dumps(GOOD).encode())}"
    return f"{body}.{part(hmac.digest(secret, body.encode(), hashlib.sha256))}"


@pytest.mark.parametrize(
    "make",
    [
        lambda settings: "",
        lambda settings: "not-a-token",
        lambda settings: "a.b.c",
        lambda settings: "ünïcode.\x00.x",
        lambda settings: "x" * 100_000,
        lambda settings: unsigned(GOOD),
        hmac_with_the_public_key,
        lambda settings: jwt.encode(GOOD, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
        lambda settings: jwt.encode({**GOOD, "iss": "other"}, own_key(settings), algorithm="ES256"),
        lambda settings: jwt.encode({**GOOD, "aud": "elsewhere"}, own_key(settings), algorithm="ES256"),
        lambda settings: jwt.encode({"sub": "admin", "iss": "magnetar"}, own_key(settings), algorithm="ES256"),
        lambda settings: jwt.encode({"jti": "k", "iss": "magnetar"}, own_key(settings), algorithm="ES256"),
        lambda settings: jwt.encode({**GOOD, "sub": ""}, own_key(settings), algorithm="ES256"),
        lambda settings: jwt.encode({**GOOD, "exp": 1e300}, own_key(settings), algorithm="ES256"),
        lambda settings: issue_token(settings, "admin", "superuser-1", NOW_S)[:-6] + "AAAAAA",
        lambda settings: service_token(settings, "web"),
    ],
)
def test_tokens_that_are_refused(settings: Settings, make: object) -> None:
    with pytest.raises(AuthenticationFailed):
        TokenVerifier.from_settings(settings).verify(make(settings), NOW_MS)  # type: ignore[operator]


def test_missing_secrets_name_the_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"token-verify\.pem"):
        TokenVerifier.from_settings(settings)
    with pytest.raises(ConfigError, match="no service identity"):
        ServiceVerifier.from_settings(settings)
    with pytest.raises(ConfigError, match="console-password"):
        identity.read_secret(settings, "console-password")


def test_service_token_round_trip_and_renewal(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [float(NOW_S)]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    verifier = ServiceVerifier.from_settings(settings)
    token = service_token(settings, "worker")
    principal = verifier.verify(token, NOW_MS)
    assert principal == Principal("service:worker", service=True, expires_ms=NOW_MS + 60_000)
    clock[0] += 29
    assert service_token(settings, "worker") == token
    clock[0] += 2
    renewed = service_token(settings, "worker")
    assert renewed != token
    assert verifier.verify(renewed, NOW_MS + 31_000).expires_ms == NOW_MS + 91_000
    clock[0] -= 3600  # a clock set back must not leave a token from the future in use
    assert service_token(settings, "worker") != renewed
    with pytest.raises(AuthenticationFailed, match="expired"):
        verifier.verify(token, NOW_MS + 60_000)


def test_service_tokens_that_are_refused(settings: Settings) -> None:
    verifier = ServiceVerifier.from_settings(settings)
    web = private_key(identity.secrets_path(settings) / "identity" / "web.key")
    good = {"sub": "service:web", "aud": "magnetar-rpc", "iat": NOW_S, "exp": NOW_S + 60}
    assert verifier.verify(jwt.encode(good, web, algorithm="ES256"), NOW_MS).service
    bad = [
        jwt.encode({**good, "sub": "service:broker"}, web, algorithm="ES256"),  # another's name with one's own key
        jwt.encode({**good, "aud": "other"}, web, algorithm="ES256"),
        jwt.encode({key: value for key, value in good.items() if key != "aud"}, web, algorithm="ES256"),
        jwt.encode({key: value for key, value in good.items() if key != "exp"}, web, algorithm="ES256"),
        jwt.encode({key: value for key, value in good.items() if key != "iat"}, web, algorithm="ES256"),
        jwt.encode({**good, "exp": NOW_S + 3600}, web, algorithm="ES256"),
        jwt.encode(good, own_key(settings), algorithm="ES256"),
        issue_token(settings, "service:web", "k", NOW_S),
        unsigned(good),
        "",
    ]
    for token in bad:
        with pytest.raises(AuthenticationFailed):
            verifier.verify(token, NOW_MS)
