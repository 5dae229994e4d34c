"""Makes the self-signed certificate: an authority of our own signs one certificate for this machine, and its key is thrown away.

Two certificates instead of one, because some clients refuse an authority's certificate as a server's own, and others trust nothing
but an authority. Keys are EC P-256.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from messaging.atomic_files import replace_file

LIFE_DAYS = 397  # the longest that browsers and Apple's clients accept
RENEW_BEFORE_DAYS = 60


def serves(certificate_file: Path, key_file: Path, names: list[str], now: datetime.datetime) -> bool:
    """Whether there is a certificate for all of `names` that is not about to end."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        certified = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    covered = {*certified.get_values_for_type(x509.DNSName), *map(str, certified.get_values_for_type(x509.IPAddress))}
    until = certificate.not_valid_after_utc - datetime.timedelta(days=RENEW_BEFORE_DAYS)
    return key_file.exists() and set(names) <= covered and now < until


def make(certificate_file: Path, key_file: Path, names: list[str], now: datetime.datetime) -> None:
    """Writes the key, the authority's certificate as ca.pem, and last the certificate with the authority's after it."""

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Magnetar, made on this machine")])
    authority = (
        unsigned(authority_name, authority_name, authority_key, now, LIFE_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(authority=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    certificate = (
        unsigned(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]), authority_name, key, now, LIFE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .add_extension(alternatives, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    write(key_file, private_pem(key))
    write(certificate_file.with_name("ca.pem"), authority.public_bytes(pem))
    write(certificate_file, certificate.public_bytes(pem) + authority.public_bytes(pem))


def unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, life_days: int
) -> x509.CertificateBuilder:
    """What certificates of ours have in common."""
    begin = now - datetime.timedelta(hours=1)  # clocks differ
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=life_days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def key_usage(*, authority: bool) -> x509.KeyUsage:
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


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write(path: Path, data: bytes) -> None:
    """Whole or not at all, readable by nobody else."""
    replace_file(path, data, durable=True, mode=0o600)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
