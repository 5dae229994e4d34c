"""Keys and settings for the tests of tokens, at one moment."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from messaging import identity
from messaging.identity.files import private_key
from messaging.settings import Settings

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def own_key(settings: Settings) -> ec.EllipticCurvePrivateKey:
    return private_key(identity.secrets_path(settings) / "token-signing.pem")


def external(settings: Settings, *paths: str, **more: object) -> Settings:
    values = {"token_verify_issuer": "someone", "token_verify_audience": "magnetar", **more}
    return Settings(data_dir=settings.data_dir, token_verify_keys=paths, **values)  # type: ignore[arg-type]
