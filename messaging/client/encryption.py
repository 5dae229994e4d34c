"""End-to-end encryption as Pulsar's clients do it: the broker and its operators cannot read the messages.

A data key (AES, 256 bits) encrypts the payload of each entry by AES-GCM, after compression, with a nonce of 12 bytes of its own;
the tag of 16 bytes follows the bytes. The data key itself is encrypted for each public key (`data_keys`) and stored in the
metadata of each entry, with the name of that key. A data key is used for four hours.

Needs the `cryptography` library, which is loaded when a key is read.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from messaging.client.data_keys import check_library, decrypted_by, encrypted_for, private_key, public_key
from messaging.client.errors import DecryptionFailed, KeyUnavailable
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

logger = logging.getLogger("messaging.client")

DATA_KEY_BYTES = 32
NONCE_BYTES = 12
DATA_KEY_LIFE_S = 4 * 3600.0
DATA_KEYS_KEPT = 1000  # decrypted ones, so that a private key is not needed for each entry

# Key name -> the PEM of the private key; raises KeyError for a name that it does not know. After any other error it is asked again.
PrivateKeys = Callable[[str], bytes]


class Encryptor:
    """`public_keys`: PEM by name. Whoever has any of the private keys can read the messages. Raises `InvalidValue` for a key that
    is of neither RSA nor an elliptic curve."""

    def __init__(self, public_keys: Mapping[str, bytes], now_s: Callable[[], float] = time.monotonic) -> None:
        if not public_keys:
            raise InvalidValue("encryption without a key: give at least one public key by its name")
        self._keys = {name: public_key(name, pem) for name, pem in public_keys.items()}
        self._now_s = now_s
        self._made_s = 0.0
        self._data_key = b""
        self._encrypted: dict[str, bytes] = {}

    def encrypt(self, payload: bytes, metadata: pb.Metadata) -> bytes:
        """Returns the bytes to send and says in `metadata` how to read them."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        now_s = self._now_s()
        if not self._data_key or now_s - self._made_s >= DATA_KEY_LIFE_S:
            self._made_s = now_s
            self._data_key = os.urandom(DATA_KEY_BYTES)
            self._encrypted = {name: encrypted_for(key, self._data_key) for name, key in self._keys.items()}
        nonce = os.urandom(NONCE_BYTES)
        del metadata.encryption_keys[:]
        for name, value in self._encrypted.items():
            metadata.encryption_keys.add(key=name, value=value)
        metadata.encryption_param = nonce
        return AESGCM(self._data_key).encrypt(nonce, payload, None)


class Decryptor:
    """`private_keys`: PEM by name, or a function that returns one for a name."""

    def __init__(self, private_keys: Mapping[str, bytes] | PrivateKeys) -> None:
        check_library()
        self._private = private_keys if callable(private_keys) else private_keys.__getitem__
        self._data_keys: OrderedDict[bytes, bytes] = OrderedDict()

    def decrypt(self, payload: bytes, metadata: pb.Metadata) -> bytes:
        """Raises `DecryptionFailed`, or `KeyUnavailable` if the function of the private keys failed and no other key fits."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        data_key = self._data_key(metadata)
        try:
            return AESGCM(data_key).decrypt(metadata.encryption_param, payload, None)
        except (InvalidTag, ValueError):
            raise DecryptionFailed("an encrypted message was changed on its way, or its nonce is not valid") from None

    def _data_key(self, metadata: pb.Metadata) -> bytes:
        names = []
        failed: KeyUnavailable | None = None
        for entry in metadata.encryption_keys:
            digest = sha256(entry.value).digest()
            known = self._data_keys.get(digest)
            if known is None:
                try:
                    known = self._decrypted(entry.key, entry.value)
                except KeyUnavailable as error:
                    failed = error
                if known is None:
                    names.append(entry.key)
                    continue
                self._data_keys[digest] = known
                if len(self._data_keys) > DATA_KEYS_KEPT:
                    self._data_keys.popitem(last=False)
            return known
        if failed is not None:
            raise failed
        raise DecryptionFailed(f"no private key fits an encrypted message; it has keys for {', '.join(names)[:300]}")

    def _decrypted(self, name: str, value: bytes) -> bytes | None:
        """None: it is not for the key of this name, or there is none. Raises `KeyUnavailable`."""
        try:
            pem = self._private(name)
        except KeyError:
            return None
        except Exception as failure:  # of the user's function
            logger.exception("the function that gives private keys failed")
            what = f"{type(failure).__name__}: {failure}"
            raise KeyUnavailable(f"the function that gives the private key {name[:100]!r} failed: {what}") from failure
        if not isinstance(pem, bytes):
            raise KeyUnavailable(f"the private key {name[:100]!r} is no bytes, but {type(pem).__name__}")
        try:
            key = private_key(pem)
            return None if key is None else decrypted_by(key, value)
        except (ValueError, TypeError):
            return None


def read_keys(paths: Mapping[str, str | Path]) -> dict[str, bytes]:
    """PEM files by the names of their keys."""
    return {name: Path(path).read_bytes() for name, path in paths.items()}
