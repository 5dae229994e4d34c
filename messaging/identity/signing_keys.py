"""The keys that sign and verify tokens. One key signs; older ones verify their tokens until they are retired.

secrets/token-signing.pem contains the private key, on machines that issue tokens. secrets/token-verify.pem contains the public
keys, newest first, on every machine that verifies tokens. A key's id (`kid` in the header of a token) is the beginning of the
SHA-256 of its public key, so it needs no list. Running processes notice a changed file within a second.
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives import serialization

from messaging.identity import files
from messaging.identity.files import PublicKey, secrets_path
from messaging.settings import ConfigError, Settings

SIGNING_FILE = "token-signing.pem"
VERIFY_FILE = "token-verify.pem"
KEYS_MAX = 16  # in the file; each unknown token is tried with none of them but the one that it names
_ID_LENGTH = 16


def key_id(key: PublicKey) -> str:
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()[:_ID_LENGTH]


def verify_keys(settings: Settings) -> dict[str, PublicKey]:
    """id -> key, the newest first. Raises `ConfigError`."""
    return {key_id(key): key for key in files.public_keys(secrets_path(settings) / VERIFY_FILE)}


def signing_key_id(settings: Settings) -> str:
    """Of the key that signs now. Raises `ConfigError` on a machine that does not sign."""
    return key_id(files.private_key(secrets_path(settings) / SIGNING_FILE).public_key())


def rotate(settings: Settings) -> str:
    """Makes a new key sign from now on; returns its id. Tokens of the former keys stay valid. Raises `ConfigError`.

    The public key is in place before the private one: at no moment is a token made that cannot be verified."""
    folder = secrets_path(settings)
    with files.locked(settings):
        former = verify_keys(settings)
        if len(former) >= KEYS_MAX:
            raise ConfigError(
                f"{KEYS_MAX} keys already verify tokens, which is the limit: retire one first with `magnetar keys "
                f"retire-signing ID`"
            )
        files.private_key(folder / SIGNING_FILE)  # a machine that only verifies must not begin to sign
        beside = folder / f".{SIGNING_FILE}.next"
        files.replace(beside, files.new_private_key())
        made = files.private_key(beside).public_key()
        _write(settings, {key_id(made): made, **former})
        beside.replace(folder / SIGNING_FILE)
    return key_id(made)


def retire(settings: Settings, retired_id: str) -> None:
    """Every token that this key signed is refused from now on, and its connections end. Raises `ConfigError`."""
    with files.locked(settings):
        keys = verify_keys(settings)
        if retired_id not in keys:
            raise ConfigError(f"key {retired_id!r} does not exist: `magnetar keys list` shows all keys")
        if retired_id == signing_key_id(settings):
            raise ConfigError(
                f"key {retired_id} signs new tokens: create another signing key first with `magnetar keys rotate-signing`"
            )
        del keys[retired_id]
        _write(settings, keys)


def _write(settings: Settings, keys: dict[str, PublicKey]) -> None:
    files.replace(secrets_path(settings) / VERIFY_FILE, "".join(files.public_pem(key) for key in keys.values()))
