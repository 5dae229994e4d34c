"""What all machines of a fleet have in common, made once: the secrets of a first start, and certificates for each of our processes.

The authority signs nothing else. Both sides look at the common name of the other one's certificate, so no host name is needed
in them (`messaging.internal_tls`). Keys are EC P-256.
"""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from messaging.atomic_files import make_directory, replace_file
from messaging.identity.first_start import create_secrets
from messaging.identity.service import SERVICE_NAMES
from messaging.settings import ConfigError, Settings

AUTHORITY_YEARS = 10
AUTHORITY_FILE, AUTHORITY_KEY_FILE = "authority.pem", "authority.key"
LIFE_DAYS = 825
_DAY = datetime.timedelta(days=1)


def create_fleet_files(settings: Settings, now: datetime.datetime) -> Path:
    """Makes `secrets/`, as far as it is not there, and `tls/` in the data directory, and returns the latter.

    Blocks. Raises `ConfigError` where there are certificates already: another authority would not be trusted by processes that run.
    """
    folder = settings.data_path / "tls"
    if (folder / AUTHORITY_FILE).exists():
        raise ConfigError(f"{folder / AUTHORITY_FILE} exists: choose an empty directory, or use what is there")
    create_secrets(settings)
    make_directory(folder, mode=0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("Magnetar's own processes", authority_key, authority_key, None, now, 365 * AUTHORITY_YEARS)
    for name in SERVICE_NAMES:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, authority_key, authority, now, LIFE_DAYS)
        _write(folder / f"{name}.key", _private(key))
        _write(folder / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM))
    _write(folder / AUTHORITY_KEY_FILE, _private(authority_key))
    _write(folder / AUTHORITY_FILE, authority.public_bytes(serialization.Encoding.PEM))  # last: it says that all are there
    return folder


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    now: datetime.datetime,
    days: int,
) -> x509.Certificate:
    """Of a process, or without an issuer that of the authority itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = now - datetime.timedelta(hours=1)  # clocks differ
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + days * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None if issuer else 0), critical=True)
        .add_extension(_usage(authority=issuer is None), critical=True)
    )
    if issuer is not None:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(signing_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _write(path: Path, data: bytes) -> None:
    replace_file(path, data, durable=True, mode=0o600)
