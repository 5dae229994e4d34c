"""The files below secrets/: 0600 in folders that are 0700, each written atomically; and the keys that they may hold."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets as random_secrets
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from messaging.atomic_files import replace_file
from messaging.settings import ConfigError, Settings

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_PEM_END = b"-----END PUBLIC KEY-----"


def secrets_path(settings: Settings) -> Path:
    return settings.data_path / "secrets"


def read_secret(settings: Settings, name: str) -> str:
    """The text of a file below secrets/, without the line end. `ConfigError` names a file that is not there."""
    path = secrets_path(settings) / name
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"secret file {path} cannot be read ({error.strerror}): start `magnetar standalone` once, or copy it there"
        ) from None


def create(path: Path, text: str) -> None:
    """Writes a 0600 file whole, unless it exists: the hard link is the step that only one process can win."""
    if path.exists():
        return
    draft = _draft(path, text)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def replace(path: Path, text: str) -> None:
    """Writes a 0600 file whole in place of what is there: a crash leaves the old one or the new one."""
    replace_file(path, text.encode(), durable=True, mode=0o600)


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Against another command that changes the same files."""
    path = secrets_path(settings) / ".lock"
    with path.open("w") as file:
        path.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{random_secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text.rstrip("\n") + "\n")
        file.flush()
        os.fsync(file.fileno())
    return draft


# --- keys --------------------------------------------------------------------------------------------------------------------


def new_private_key() -> str:
    """An EC P-256 key as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def public_pem(key: PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def public_key(path: Path) -> PublicKey:
    """The key of a PEM file that holds one. Raises `ConfigError` naming a file that is missing or holds another kind."""
    return _loaded(path, _read(path))


def public_keys(path: Path) -> list[PublicKey]:
    """The keys of a PEM file that holds one after the other, in their order. Raises `ConfigError`."""
    parts = [part + _PEM_END for part in _read(path).split(_PEM_END)[:-1]]
    if not parts:
        raise ConfigError(f"key file {path} does not contain a public key in PEM format")
    return [_loaded(path, part.lstrip()) for part in parts]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"key file {path} cannot be read ({error.strerror}): start `magnetar standalone` once, or copy the key there"
        ) from None


def _loaded(path: Path, pem: bytes) -> PublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except ValueError:
        raise ConfigError(f"key file {path} does not contain a public key in PEM format") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ConfigError(f"key file {path} contains an unsupported key: use RSA with at least 2048 bits, or EC P-256")


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(
            f"key file {path} cannot be read ({error.strerror}): only the machine that created it can sign tokens"
        ) from None
    except ValueError:
        raise ConfigError(f"key file {path} does not contain a private key in PEM format") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"key file {path} does not contain an EC key")
    return key


def create_key_pair(private_path: Path, public_path: Path) -> None:
    if not private_path.exists():
        if public_path.exists():
            return  # this machine may verify but not sign
        create(private_path, new_private_key())
    if not public_path.exists():
        create(public_path, public_pem(private_key(private_path).public_key()))
