"""TLS with bookies, as `ledger_url` says."""

from __future__ import annotations

import ssl

from messaging.bookkeeper_url import BookkeeperUrl


def tls_context(url: BookkeeperUrl) -> ssl.SSLContext | None:
    """None: they are spoken to in clear. Reads files. Raises `ValueError`."""
    if not url.tls_ca_file:
        return None
    try:
        context = ssl.create_default_context(cafile=url.tls_ca_file)
        if url.tls_cert_file:
            context.load_cert_chain(url.tls_cert_file, url.tls_key_file)
    except OSError as error:  # `ssl.SSLError`, too
        raise ValueError(f"the TLS files of ledger_url cannot be used: {error}") from None
    return context
