"""TLS for every listener: the certificate of ``tls = "self-signed"``, and a context that follows its files.

A client is given tls/cert.pem or tls/ca.pem to trust; `messaging/certificate.py` makes them.
A context looks at its files on each handshake (one `stat` each) and uses new ones from the next handshake on, so that a
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
    own = ensure_certificate(settings) if settings.tls == "self-signed" else certificate_files(settings)
    sources = TlsSources(own, "tls_cert_file and tls_key_file")
    if identifies_clients and settings.tls_client_ca_file:
        revoked = Path(settings.tls_client_crl_file) if settings.tls_client_crl_file else None
        sources = sources._replace(
            authorities=Path(settings.tls_client_ca_file),
            authorities_setting="tls_client_ca_file",
            revoked=revoked,
            verify_mode=ssl.CERT_OPTIONAL,  # peers with a token have none
        )
    return listener_context(sources)


class TlsSources(NamedTuple):
    """The files that a context is made of, and the settings that name them."""

    own: CertificateFiles
    own_settings: str
    authorities: Path | None = None  # of peers
    authorities_setting: str = ""
    revoked: Path | None = None  # revocation lists of these authorities
    verify_mode: ssl.VerifyMode = ssl.CERT_NONE
    protocol: int = ssl.PROTOCOL_TLS_SERVER


def load_context(sources: TlsSources) -> ssl.SSLContext:
    """Raises `ConfigError`."""
    context = ssl.SSLContext(sources.protocol)
    context.check_hostname = False
    context.verify_mode = sources.verify_mode
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # of TLS 1.2: it costs a handshake each time
    try:
        context.load_cert_chain(*sources.own, password=_no_passphrase)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"TLS certificate {sources.own.certificate} with key {sources.own.key} cannot be used ({error}): "
            f"set {sources.own_settings} to a PEM certificate chain and its unencrypted key"
        ) from None
    if sources.authorities is not None:
        _trust(context, sources.authorities, sources.authorities_setting, "certificates")
    if sources.revoked is not None:
        _trust(context, sources.revoked, "tls_client_crl_file", "revocation lists")
        if not context.cert_store_stats()["crl"]:
            raise ConfigError(
                f"tls_client_crl_file {sources.revoked} contains no revocation list: name a file of PEM revocation lists"
            )
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF  # a certificate of an authority without a list is refused
    return context


def _trust(context: ssl.SSLContext, file: Path, setting: str, what: str) -> None:
    try:
        context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{setting} {file} cannot be used ({error}): name a file of PEM {what}") from None


def _no_passphrase() -> str:
    """Without it OpenSSL asks for one at the terminal, and all waits."""
    raise ValueError("the key is encrypted with a passphrase: store it without one")


Stamp = tuple[tuple[int, int, int], ...]


class ContextReload:
    """A context that is loaded again when one of its files has changed. Files that do not load change nothing, and are tried again
    the next time. Raises `ConfigError` when it is made."""

    def __init__(self, sources: TlsSources) -> None:
        self._sources = sources
        self._stamp = self._look()
        self._newest = load_context(sources)

    def newest(self) -> ssl.SSLContext:
        """Blocks for one `stat` a file."""
        stamp = self._look()
        if stamp is not None and stamp != self._stamp:
            try:
                self._newest = load_context(self._sources)
            except ConfigError:
                return self._newest  # half-written, perhaps: the next call looks again
            self._stamp = stamp
        return self._newest

    def _look(self) -> Stamp | None:
        paths = (*self._sources.own, self._sources.authorities, self._sources.revoked)
        try:
            seen = [path.stat() for path in paths if path is not None]
        except OSError:
            return None
        return tuple((status.st_mtime_ns, status.st_size, status.st_ino) for status in seen)


def listener_context(sources: TlsSources) -> ssl.SSLContext:
    """A context for listeners, which hold it and never change it: each handshake goes on with the newest files."""
    reload = ContextReload(sources)
    outer = reload.newest()

    def handshake(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        newest = reload.newest()
        if newest is not outer:
            connection.context = newest

    outer.sni_callback = handshake
    return outer
