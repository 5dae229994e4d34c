"""Who the bookies and their ZooKeeper are, and who we are to them, as `ledger_url` says: certificates and a password."""

from __future__ import annotations

import ssl
from typing import Any

from messaging.bookkeeper_url import BookkeeperUrl


def bookie_context(url: BookkeeperUrl) -> ssl.SSLContext | None:
    """None: they are spoken to in clear. Reads files. Raises `ValueError`."""
    return _context(url.tls_ca_file, url.tls_cert_file, url.tls_key_file)


def zookeeper_options(url: BookkeeperUrl) -> dict[str, Any]:
    """Arguments of `ZookeeperMetadataStore`. Reads files. Raises `ValueError`."""
    options: dict[str, Any] = {}
    context = _context(url.zookeeper_tls_ca_file, url.zookeeper_tls_cert_file, url.zookeeper_tls_key_file)
    if context is not None:
        options["ssl_context"] = context
    if auth := url.zookeeper_auth():
        options["auth_data"] = [("digest", auth)]
    return options


def _context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext | None:
    if not ca_file:
        return None
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file:
            context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # `ssl.SSLError`, too
        raise ValueError(f"the TLS files of ledger_url cannot be used: {error}") from None
    return context
