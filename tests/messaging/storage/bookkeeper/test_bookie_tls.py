"""TLS with bookies: files that cannot be used are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.bookie_tls import tls_context


def test_files_are_loaded_or_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, trusted = tmp_path / "certificate.pem", tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    assert tls_context(BookkeeperUrl("zk:2181")) is None
    url = BookkeeperUrl("zk:2181", tls_ca_file=str(trusted), tls_cert_file=str(certificate), tls_key_file=str(certificate))
    context = tls_context(url)
    assert context is not None and context.cert_store_stats()["x509_ca"] == 1
    for broken in (certificate, trusted):
        broken.write_text("nothing")
        with pytest.raises(ValueError, match="the TLS files of ledger_url cannot be used"):
            tls_context(url)
