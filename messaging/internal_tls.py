"""Mutual TLS between our own processes: the admin RPC of the broker, and the feed of the web process.

Each process has a certificate whose common name is the name of its service identity: web, worker, broker or cli. That name is what
either side looks at. Host names are not: a process is moved without a new certificate, and no other process can stand in for it.
The authority should sign nothing else.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from messaging.errors import NotReady
from messaging.identity.certificates import common_names
from messaging.settings import Settings
from messaging.tls import CertificateFiles, ContextReload, TlsSources, listener_context

PLACEHOLDER = "{service}"


def internal_sources(settings: Settings, service: str) -> TlsSources:
    own = (Path(path.replace(PLACEHOLDER, service)) for path in (settings.internal_tls_cert_file, settings.internal_tls_key_file))
    return TlsSources(
        CertificateFiles(*own),
        "internal_tls_cert_file and internal_tls_key_file",
        Path(settings.internal_tls_ca_file),
        "internal_tls_ca_file",
        verify_mode=ssl.CERT_REQUIRED,
    )


def internal_server_context(settings: Settings, service: str) -> ssl.SSLContext | None:
    """For a listener of process `service`; None where our processes speak without TLS. Raises `ConfigError`."""
    if not settings.internal_tls:
        return None
    context = listener_context(internal_sources(settings, service))
    context.num_tickets = 0  # connections stay open, and each handshake is to look at the certificates
    return context


class InternalClientTls:
    """What process `service` connects with to another one. Raises `ConfigError` when it is made."""

    def __init__(self, settings: Settings, service: str) -> None:
        self._reload = ContextReload(internal_sources(settings, service)._replace(protocol=ssl.PROTOCOL_TLS_CLIENT))

    def context(self) -> ssl.SSLContext:
        """That of the newest files."""
        return self._reload.newest()


def internal_client_tls(settings: Settings, service: str) -> InternalClientTls | None:
    return InternalClientTls(settings, service) if settings.internal_tls else None


def require_service(connection: ssl.SSLSocket, service: str, whom: str) -> None:
    """That process `service` is at the other end. Raises `NotReady`, which calls it `whom`."""
    names = common_names(connection.getpeercert())
    if names != [service]:
        raise NotReady(
            f"the certificate of {whom} is of {', '.join(names) or 'nobody'} and not of {service!r}: correct the address, or "
            f"internal_tls_cert_file there"
        )
