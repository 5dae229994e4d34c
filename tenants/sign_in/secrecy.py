"""Secrets that the database holds and that have to be read again: seeds of authenticator apps, tokens of sign-in providers.

The key is derived from the platform's own secret, so that a copy of the database alone opens none of them."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from messaging.errors import NotReady


@lru_cache(maxsize=2)
def _fernet(secret: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=b"magnetar.sign-in").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))


def encrypt(text: str) -> str:
    return _fernet(settings.SECRET_KEY).encrypt(text.encode()).decode()


def decrypt(text: str) -> str:
    """Raises `NotReady` for what another secret has encrypted."""
    try:
        return _fernet(settings.SECRET_KEY).decrypt(text.encode()).decode()
    except InvalidToken:
        raise NotReady("a stored secret cannot be read: secrets/django-secret-key is not the one that it was stored with") from None
