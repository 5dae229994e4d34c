"""`magnetar doctor` on the PostgreSQL and the bookies that the broker stores in."""

from __future__ import annotations

from pathlib import Path

import psycopg

from controlplane.doctor.databases import databases
from messaging.settings import Settings


def test_without_postgresql_nothing_is_said(tmp_path: Path) -> None:
    assert not list(databases(Settings(data_dir=str(tmp_path))))


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    (finding,) = databases(Settings(data_dir=str(tmp_path), ledger_url="postgresql://magnetar:geheim@127.0.0.1:1/none"))
    assert (finding.what, finding.level) == ("PostgreSQL of ledger_url", "fail")
    assert "cannot be reached" in finding.says and "geheim" not in finding.says and finding.do


def test_a_server_that_answers_is_described(tmp_path: Path, metadata_url: str) -> None:
    with psycopg.connect(metadata_url) as connection:
        (fsync,) = connection.execute("show fsync").fetchone() or ("",)
    metadata, ledgers = databases(Settings(data_dir=str(tmp_path), metadata_url=metadata_url, ledger_url=metadata_url))
    if fsync == "off":  # as servers of tests have it
        assert metadata.level == ledgers.level == "fail" and "fsync = off" in metadata.says
    else:
        assert "no synchronous standby" in metadata.says and "in the schema magnetar_ledgers" in ledgers.says


def test_a_standby_is_told_apart(tmp_path: Path, metadata_url: str) -> None:
    separator = "&" if "?" in metadata_url else "?"
    url = f"{metadata_url}{separator}options=-c%20default_transaction_read_only%3Don"
    (finding,) = databases(Settings(data_dir=str(tmp_path), metadata_url=url))
    assert finding.level == "fail" and "read-only, as a standby is" in finding.says


def test_a_bookkeeper_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (finding,) = databases(Settings(data_dir=str(tmp_path), ledger_url="bookkeeper://127.0.0.1:1/ledgers"))
    assert (finding.what, finding.level) == ("BookKeeper of ledger_url", "fail")
    assert "no ZooKeeper at 127.0.0.1:1" in finding.says and finding.do


def test_files_of_a_bookkeeper_that_are_missing_are_named(tmp_path: Path) -> None:
    for option in ("password_file", "tls_ca_file"):
        (finding,) = databases(Settings(data_dir=str(tmp_path), ledger_url=f"bookkeeper://zk/ledgers?{option}={tmp_path}/none"))
        assert finding.level == "fail" and "No such file" in finding.says
