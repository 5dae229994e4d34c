"""Data keys for keys on elliptic curves, beside what Pulsar's Java client wrote."""

from __future__ import annotations

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from messaging.client.consuming.unpacking import DECRYPTION, Unreadable, open_entry
from messaging.client.encryption import Decryptor, Encryptor
from messaging.client.errors import DecryptionFailed, InvalidValue, KeyUnavailable
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send

KEY = ec.derive_private_key(0x983BEC550B25A1E6A495734D868D3CDD112CCF3818B52997E761B98C01A3A668, ec.SECP256R1())
# Of MessageCryptoBc of Pulsar 4.0.8 with Bouncy Castle 1.81, for KEY; it read what we wrote for the same key.
DATA_KEY = bytes.fromhex(
    "046ef1eaa1223f3fedc2316a7a27e00d8c61cbd934d65b6f08f28507d49d3b19d3f647ada9ba713c0f62eb2c8c57ec00ac8691182fc26d5d77dceb5b8b489dd4"
    "9d32525b6268a7e21c1cb3cc2fca4e831257107cc7433308d6bf742df51586fb712571240ddbf21033fa83bde448a65c6936b50863"
)
NONCE = bytes.fromhex("c4a1da319d98f107b4692b58")
SEALED = bytes.fromhex("d55d7cf9d172487bfa7c3ea65dd89cfacc730fd92aef5e781ecc2b18b93c")


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def metadata_of(data_key: bytes, nonce: bytes) -> pb.Metadata:
    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1, encryption_param=nonce)
    metadata.encryption_keys.add(key="key", value=data_key)
    return metadata


def test_what_the_java_client_sealed_is_read() -> None:
    assert Decryptor({"key": private_pem(KEY)}).decrypt(SEALED, metadata_of(DATA_KEY, NONCE)) == b"sealed by Java"


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP521R1(), ec.SECP256K1()])
def test_each_curve_reads_what_was_sealed_for_it_and_nobody_else_does(curve: ec.EllipticCurve) -> None:
    key, other, metadata = ec.generate_private_key(curve), ec.generate_private_key(curve), metadata_of(b"", b"")
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    sealed = Encryptor({"key": public_pem(key)}).encrypt(b"secret", metadata)
    assert Decryptor({"key": parameters + private_pem(key)}).decrypt(sealed, metadata) == b"secret"
    with pytest.raises(DecryptionFailed, match="no private key fits"):
        Decryptor({"key": private_pem(other)}).decrypt(sealed, metadata)


@pytest.mark.parametrize("at", [0, 1, 64, 65, 96, 97, 116])
def test_a_data_key_that_was_changed_is_refused(at: int) -> None:
    changed = bytearray(DATA_KEY)
    changed[at] ^= 1
    for value in (bytes(changed), DATA_KEY[:at], b"\x02" + DATA_KEY[1:40]):
        with pytest.raises(DecryptionFailed):
            Decryptor({"key": private_pem(KEY)}).decrypt(SEALED, metadata_of(value, NONCE))


def test_keys_of_other_kinds_are_refused() -> None:
    pem = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InvalidValue, match="neither RSA nor an elliptic curve"):
        Encryptor({"key": pem})
    with pytest.raises(InvalidValue, match="not valid PEM"):
        Encryptor({"key": b"nothing"})


def test_without_its_library_encryption_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for make in (lambda: Encryptor({"k": b"pem"}), lambda: Decryptor({"k": b"pem"})):
        with pytest.raises(InvalidValue, match="pip install cryptography"):
            make()


@pytest.mark.parametrize("failure", [OSError("the vault is closed"), ValueError("no answer"), TypeError("bad"), None])
def test_a_function_of_private_keys_that_fails_says_nothing_of_the_message(failure: Exception | None) -> None:
    def private(name: str) -> bytes:
        if failure is not None:
            raise failure
        return None  # type: ignore[return-value]

    metadata = metadata_of(b"encrypted", bytes(12))
    with pytest.raises(KeyUnavailable, match="private key 'key'") as caught:
        Decryptor(private).decrypt(b"payload", metadata)
    assert caught.value.__cause__ is failure
    stored = build_send(1, 0, metadata, b"payload")
    stored = stored[8 + int.from_bytes(stored[4:8], "big") :]
    for crypto_failure in ("fail", "discard", "consume"):
        with pytest.raises(Unreadable) as unread:
            open_entry(stored, Decryptor(private), crypto_failure)
        assert not unread.value.discard and unread.value.reason == DECRYPTION


def test_another_key_may_fit_where_a_function_fails() -> None:
    def private(name: str) -> bytes:
        if name == "key":
            return private_pem(KEY)
        raise KeyError(name) if name == "unknown" else OSError("the vault is closed")

    metadata = metadata_of(DATA_KEY, NONCE)
    metadata.encryption_keys.insert(0, pb.EncryptionKey(key="closed", value=b"encrypted"))
    assert Decryptor(private).decrypt(SEALED, metadata) == b"sealed by Java"
    metadata.encryption_keys[0].key = metadata.encryption_keys[1].key = "unknown"
    with pytest.raises(DecryptionFailed, match="no private key fits"):
        Decryptor(private).decrypt(SEALED, metadata)
