"""How a data key is encrypted for whoever has a private key, as Pulsar's clients do it.

    RSA     OAEP with SHA-1, as by all of them
    EC      ECIES as Pulsar's Java client has it by Bouncy Castle: ``point | data key xor K1 | HMAC``; those in C++ (and so in
            Python), Go and Node.js read RSA only

Of ECIES: the point is an uncompressed one of a new key on the curve of the public key; K2 (16 bytes) and K1 are the bytes of KDF2
with SHA-1 over the point and the agreed secret; the HMAC is of SHA-1 with K2 over the masked data key and eight zeros.

Needs the `cryptography` library, which is loaded when a key is read.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from messaging.errors import InvalidValue

# A key of the library, of RSA or of an elliptic curve.
PublicKey = Any
PrivateKey = Any

MAC_KEY_BYTES = 16
MAC_BYTES = 20
# Of `openssl ecparam -genkey`: the key says the curve once more.
_PARAMETERS = re.compile(rb"-----BEGIN EC PARAMETERS-----.*?-----END EC PARAMETERS-----\s*", re.DOTALL)


def check_library() -> None:
    """Raises `InvalidValue`."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidValue("encryption needs the cryptography library: pip install cryptography") from None


def public_key(name: str, pem: bytes) -> PublicKey:
    """Raises `InvalidValue`."""
    check_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_PARAMETERS.sub(b"", pem))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidValue(f"the public key {name!r} is not valid PEM: {error}") from None
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey):
        raise InvalidValue(f"the public key {name!r} is of neither RSA nor an elliptic curve: others are not supported")
    return key


def private_key(pem: bytes) -> PrivateKey | None:
    """None for a key of another kind. Raises `ValueError`, `TypeError`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_PARAMETERS.sub(b"", pem), password=None)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    return key if isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey) else None


def encrypted_for(key: PublicKey, data_key: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH, EllipticCurvePublicKey, generate_private_key

    if not isinstance(key, EllipticCurvePublicKey):
        return bytes(key.encrypt(data_key, _oaep()))
    once = generate_private_key(key.curve)
    point = _point(once.public_key())
    mac_key, mask = _keys(point, once.exchange(ECDH(), key), len(data_key))
    masked = _xor(data_key, mask)
    return point + masked + _mac(mac_key, masked)


def decrypted_by(key: PrivateKey, value: bytes) -> bytes:
    """Raises `ValueError` if it is not for this key."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH, EllipticCurvePrivateKey, EllipticCurvePublicKey

    if not isinstance(key, EllipticCurvePrivateKey):
        return bytes(key.decrypt(value, _oaep()))
    coordinate_bytes = (key.curve.key_size + 7) // 8
    compressed = value[:1] in (b"\x02", b"\x03")
    size = 1 + coordinate_bytes * (1 if compressed else 2)
    if len(value) <= size + MAC_BYTES:
        raise ValueError(f"{len(value)} bytes are no data key that was encrypted for a key on {key.curve.name}")
    point, masked, mac = value[:size], value[size:-MAC_BYTES], value[-MAC_BYTES:]
    theirs = EllipticCurvePublicKey.from_encoded_point(key.curve, point)
    mac_key, mask = _keys(point, key.exchange(ECDH(), theirs), len(masked))
    if not hmac.compare_digest(_mac(mac_key, masked), mac):
        raise ValueError("the data key was encrypted for another key, or changed on its way")
    return _xor(masked, mask)


def _oaep() -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.OAEP(mgf=padding.MGF1(algorithm=hashes.SHA1()), algorithm=hashes.SHA1(), label=None)


def _point(key: PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return bytes(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def _keys(point: bytes, secret: bytes, size: int) -> tuple[bytes, bytes]:
    """The key of the HMAC, and what the data key is combined with."""
    stream = b""
    counter = 1
    while len(stream) < MAC_KEY_BYTES + size:
        stream += hashlib.sha1(point + secret + counter.to_bytes(4, "big")).digest()
        counter += 1
    return stream[:MAC_KEY_BYTES], stream[MAC_KEY_BYTES : MAC_KEY_BYTES + size]


def _mac(key: bytes, masked: bytes) -> bytes:
    return hmac.digest(key, masked + bytes(8), "sha1")


def _xor(data: bytes, mask: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(data, mask, strict=True))
