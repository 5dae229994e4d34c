"""Tokens and service identities: what is accepted, and everything that must not be."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from messaging import identity
from messaging.errors import AuthenticationFailed
from messaging.identity import ServiceVerifier, TokenVerifier, create_secrets, issue_token, service_token, signing_keys
from messaging.identity.files import private_key
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data_dir=str(tmp_path / "data"))
    create_secrets(settings)
    return settings


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def own_key(settings: Settings) -> ec.EllipticCurvePrivateKey:
    return private_key(identity.secrets_path(settings) / "token-signing.pem")


def test_secrets_are_private_complete_and_kept(settings: Settings) -> None:
    folder = identity.secrets_path(settings)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    pairs = {f"identity/{name}.{kind}" for name in ("web", "worker", "broker") for kind in ("key", "pub")}
    rest = {"token-signing.pem", "token-verify.pem", "django-secret-key", "superuser.token", "console-password"}
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


def external(settings: Settings, *paths: str, **more: object) -> Settings:
    values = {"token_verify_issuer": "someone", "token_verify_audience": "magnetar", **more}
    return Settings(data_dir=settings.data_dir, token_verify_keys=paths, **values)  # type: ignore[arg-type]


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


def test_a_new_key_signs_and_the_former_one_goes_on_verifying_until_it_is_retired(settings: Settings) -> None:
    verifier = TokenVerifier.from_settings(settings)
    before = issue_token(settings, "app@acme", "k1", NOW_S)
    former = signing_keys.signing_key_id(settings)
    made = signing_keys.rotate(settings)
    after = issue_token(settings, "app@acme", "k2", NOW_S)
    assert list(signing_keys.verify_keys(settings)) == [made, former]
    assert verifier.verify(before, NOW_MS).signing_key_id == former
    assert verifier.verify(after, NOW_MS + 1000).signing_key_id == made  # a running process takes the new file in
    with pytest.raises(ConfigError, match="signs new tokens"):
        signing_keys.retire(settings, made)
    with pytest.raises(ConfigError, match="does not exist"):
        signing_keys.retire(settings, "unknown")
    signing_keys.retire(settings, former)
    held = Principal("app@acme", "k1", signing_key_id=former)
    assert verifier.still_verifies(held)
    verifier.reload(NOW_MS + 5000)
    assert not verifier.still_verifies(held)
    with pytest.raises(AuthenticationFailed):
        verifier.verify(before, NOW_MS + 5000)
    assert verifier.verify(after, NOW_MS + 5000).role == "app@acme"
    assert {path.stat().st_mode & 0o777 for path in identity.secrets_path(settings).rglob("*") if path.is_file()} == {0o600}


def test_tokens_made_before_keys_had_ids_are_verified(settings: Settings) -> None:
    token = jwt.encode({"sub": "app@acme", "jti": "k1", "iss": "magnetar"}, own_key(settings), algorithm="ES256")
    former = signing_keys.signing_key_id(settings)
    signing_keys.rotate(settings)
    verifier = TokenVerifier.from_settings(settings)
    assert verifier.verify(token, NOW_MS).signing_key_id == former
    signing_keys.retire(settings, former)
    with pytest.raises(AuthenticationFailed):
        TokenVerifier.from_settings(settings).verify(token, NOW_MS)


def test_a_file_of_keys_that_cannot_be_read_changes_nothing(settings: Settings) -> None:
    verifier = TokenVerifier.from_settings(settings)
    token = issue_token(settings, "app@acme", "k1", NOW_S)
    (identity.secrets_path(settings) / "token-verify.pem").write_text("half a key")
    assert verifier.verify(token, NOW_MS + 5000).role == "app@acme"


def test_a_kill_between_the_two_files_of_a_rotation_leaves_all_tokens_valid(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = issue_token(settings, "app@acme", "k1", NOW_S)
    real = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".next"):  # the last step: the new key takes the place of the one that signs
            raise OSError("killed")
        return real(self, target)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(Path, "replace", killed)
        signing_keys.rotate(settings)
    verifier = TokenVerifier.from_settings(settings)
    assert verifier.verify(before, NOW_MS) and verifier.verify(issue_token(settings, "a", "k", NOW_S), NOW_MS)
    assert len(signing_keys.verify_keys(settings)) == 2
    signing_keys.rotate(settings)  # and it can be done again


def test_key_files_that_are_none(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no key")
    (tmp_path / "small").write_bytes(pem(rsa.generate_private_key(65537, 1024)))
    (tmp_path / "curve").write_bytes(pem(ec.generate_private_key(ec.SECP384R1())))
    (tmp_path / "ed").write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    for name in ("text", "small", "curve", "ed", "absent"):
        with pytest.raises(ConfigError, match=name):
            TokenVerifier.from_settings(external(settings, str(tmp_path / name)))


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
