"""Signing keys: rotated and retired without a restart, and what is read of damaged files."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from messaging import identity
from messaging.errors import AuthenticationFailed
from messaging.identity import TokenVerifier, issue_token, signing_keys
from messaging.permissions.model import Principal
from messaging.settings import ConfigError, Settings
from tests.messaging.identity.keys import NOW_MS, NOW_S, external, own_key, pem


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
    principal = Principal("app@acme", "k1", signing_key_id=former)
    assert verifier.still_verifies(principal)
    verifier.reload(NOW_MS + 5000)
    assert not verifier.still_verifies(principal)
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
