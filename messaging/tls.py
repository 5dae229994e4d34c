"""TLS for every listener: the certificate of ``tls = "self-signed"``, and a context that follows its files.

A client is given tls/cert.pem or tls/ca.pem to trust; `messaging/certificate.py` makes them.
`server_context` looks at the files on each handshake (one `stat` each) and uses new ones from the next handshake on, so that a
renewed certificate needs no restart and no signal. Files that do not load, such as half-written ones, change nothing and are tried
again.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from messaging.atomic_files import make_directory
from messaging.settings import ConfigError, Settings


class CertificateFiles(NamedTuple):
    certificate: Path
    key: Path


def certificate_files(settings: Settings) -> CertificateFiles:
    """Where the certificate and the key of the listeners are, whether they exist or not. Only where `tls` is not "off"."""
    if settings.tls == "files":
        return CertificateFiles(Path(settings.tls_cert_file), Path(settings.tls_key_file))
    return CertificateFiles(settings.data_path / "tls" / "cert.pem", settings.data_path / "tls" / "key.pem")


def names_of(settings: Settings) -> list[str]:
    """Host names and addresses that the self-signed certificate is made for."""
    wildcards = ("", "0.0.0.0", "::", "*")
    names = ["localhost", "127.0.0.1", "::1", settings.host, settings.advertised_host, *settings.allowed_hosts]
    return list(dict.fromkeys(name for name in names if name not in wildcards))


def ensure_certificate(settings: Settings, now: datetime.datetime | None = None) -> CertificateFiles:
    """Makes or renews the self-signed certificate; leaves one alone that is for the right names and not about to end.

    Safe beside another process doing the same. Blocks; raises `OSError` where the data directory cannot be written.
    """
    files = certificate_files(settings)
    now = datetime.datetime.now(datetime.UTC) if now is None else now
    make_directory(files.certificate.parent, mode=0o700)
    with _locked(files.certificate.parent / "lock"):
        # Loads the cryptographic library, which no other part of a running broker or web server needs at this point.
        from messaging import certificate

        if not certificate.serves(files.certificate, files.key, names_of(settings), now):
            certificate.make(files.certificate, files.key, names_of(settings), now)
    return files


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def server_context(settings: Settings, *, identifies_clients: bool = False) -> ssl.SSLContext | None:
    """The context for a listener, or None where `tls` is "off". Makes the self-signed certificate if need be. A listener that
    `identifies_clients` asks for their certificates where `tls_client_ca_file` is set, and refuses those that do not verify.

    Raises `ConfigError` if the files do not hold a certificate and its key, or no authorities.
    """
    if settings.tls == "off":
        return None
    files = ensure_certificate(settings) if settings.tls == "self-signed" else certificate_files(settings)
    authorities = Path(settings.tls_client_ca_file) if identifies_clients and settings.tls_client_ca_file else None
    follower = _Follower(files, authorities)
    return follower.outer


def _no_passphrase() -> str:
    """Without it OpenSSL asks for one at the terminal, and all waits."""
    raise ValueError("the key is encrypted with a passphrase: store it without one")


Stamp = tuple[tuple[int, int, int], ...]


class _Follower:
    """Keeps a loaded context for the newest files; `outer` is what listeners hold and never changes."""

    def __init__(self, files: CertificateFiles, client_authorities: Path | None) -> None:
        self._files = files
        self._client_authorities = client_authorities
        self._stamp = self._look()
        self.outer = self._load()
        self._current = self.outer
        self.outer.sni_callback = self._handshake

    def _look(self) -> Stamp | None:
        try:
            seen = [path.stat() for path in (*self._files, self._client_authorities) if path is not None]
        except OSError:
            return None
        return tuple((status.st_mtime_ns, status.st_size, status.st_ino) for status in seen)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # of TLS 1.2: it costs a handshake each time
        try:
            context.load_cert_chain(self._files.certificate, self._files.key, password=_no_passphrase)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"TLS certificate {self._files.certificate} with key {self._files.key} cannot be used ({error}): "
                "set tls_cert_file and tls_key_file to a PEM certificate chain and its unencrypted key"
            ) from None
        if self._client_authorities is not None:
            try:
                context.load_verify_locations(self._client_authorities)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(
                    f"tls_client_ca_file {self._client_authorities} cannot be used ({error}): name a file of PEM certificates"
                ) from None
            context.verify_mode = ssl.CERT_OPTIONAL  # peers with a token have none
        return context

    def _handshake(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        stamp = self._look()
        if stamp is not None and stamp != self._stamp:
            try:
                self._current = self._load()
            except ConfigError:
                return  # half-written, perhaps: the next handshake looks again
            self._stamp = stamp
        if self._current is not self.outer:
            connection.context = self._current
