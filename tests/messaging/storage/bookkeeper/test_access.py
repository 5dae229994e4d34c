"""TLS with bookies and with ZooKeeper, and its password: files that cannot be used are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.access import bookie_context, zookeeper_options


def test_files_are_loaded_or_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, trusted = tmp_path / "certificate.pem", tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    assert bookie_context(BookkeeperUrl("zk:2181")) is None
    url = BookkeeperUrl("zk:2181", tls_ca_file=str(trusted), tls_cert_file=str(certificate), tls_key_file=str(certificate))
    context = bookie_context(url)
    assert context is not None and context.cert_store_stats()["x509_ca"] == 1
    for broken in (certificate, trusted):
        broken.write_text("nothing")
        with pytest.raises(ValueError, match="the TLS files of ledger_url cannot be used"):
            bookie_context(url)


def test_zookeeper_has_files_of_its_own(tmp_path: Path) -> None:
    trusted, auth = tmp_path / "authority.pem", tmp_path / "auth"
    trustme.CA().cert_pem.write_to_path(str(trusted))
    auth.write_text("magnetar:secret\n")
    assert zookeeper_options(BookkeeperUrl("zk:2181", tls_ca_file=str(trusted))) == {}
    url = BookkeeperUrl("zk:2181", zookeeper_tls_ca_file=str(trusted), zookeeper_auth_file=str(auth))
    options = zookeeper_options(url)
    assert options["ssl_context"].cert_store_stats()["x509_ca"] == 1 and options["ssl_context"].check_hostname
    assert options["auth_data"] == [("digest", "magnetar:secret")]
    for wrong in ("secret", ":secret", "magnetar:"):
        auth.write_text(wrong)
        with pytest.raises(ValueError, match=r"zookeeper_auth_file .* is no name:password") as refused:
            zookeeper_options(url)
        assert "secret" not in str(refused.value)
    trusted.write_text("nothing")
    with pytest.raises(ValueError, match="the TLS files of ledger_url cannot be used"):
        zookeeper_options(url)
