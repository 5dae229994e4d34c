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

from messaging import certificate
from messaging.atomic_files import make_directory
from messaging.identity.first_start import create_secrets
from messaging.identity.service import SERVICE_NAMES
from messaging.settings import ConfigError, Settings

AUTHORITY_YEARS = 10
AUTHORITY_FILE, AUTHORITY_KEY_FILE = "authority.pem", "authority.key"
LIFE_DAYS = 825


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
        own = _certificate(name, key, authority_key, authority, now, LIFE_DAYS)
        certificate.write(folder / f"{name}.key", certificate.private_pem(key))
        certificate.write(folder / f"{name}.pem", own.public_bytes(serialization.Encoding.PEM))
    certificate.write(folder / AUTHORITY_KEY_FILE, certificate.private_pem(authority_key))
    # Last: it says that all are there.
    certificate.write(folder / AUTHORITY_FILE, authority.public_bytes(serialization.Encoding.PEM))
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
    builder = (
        certificate.unsigned(subject, issuer.subject if issuer else subject, key, now, days)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None if issuer else 0), critical=True)
        .add_extension(certificate.key_usage(authority=issuer is None), critical=True)
    )
    if issuer is not None:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(signing_key, hashes.SHA256())
