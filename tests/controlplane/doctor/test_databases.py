"""`magnetar doctor` on the PostgreSQL and the bookies that the broker stores in."""

from __future__ import annotations

from pathlib import Path

import psycopg

from controlplane.doctor.databases import clock_finding, databases
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
    settings = Settings(data_dir=str(tmp_path), database_url=metadata_url, metadata_url=metadata_url, ledger_url=metadata_url)
    control, metadata, ledgers, clock = databases(settings)
    assert (clock.what, clock.level) == ("Clock", "ok") and control.what == "PostgreSQL of database_url"
    if fsync == "off":  # as servers of tests have it
        assert control.level == metadata.level == ledgers.level == "fail" and "fsync = off" in metadata.says
    else:
        assert "no synchronous standby" in metadata.says and "in the schema magnetar_ledgers" in ledgers.says


def test_one_that_takes_no_changes_is_told_apart(tmp_path: Path, metadata_url: str) -> None:
    separator = "&" if "?" in metadata_url else "?"
    url = f"{metadata_url}{separator}options=-c%20default_transaction_read_only%3Don"
    finding = next(databases(Settings(data_dir=str(tmp_path), metadata_url=url)))
    assert finding.level == "fail" and "read-only: nothing can be stored" in finding.says
    assert "default_transaction_read_only off" in finding.do


def test_a_clock_that_is_wrong_is_told_with_what_it_does() -> None:
    assert clock_finding("metadata_url", -1_900).level == "ok"
    ahead = clock_finding("metadata_url", -3_500)
    assert ahead.level == "warn" and "this machine is 3 s ahead of that of the server of metadata_url" in ahead.says
    behind = clock_finding("ledger_url", 65_000)
    assert behind.level == "fail" and "65 s behind" in behind.says and "does not start" in behind.says and "chrony" in behind.do


def test_a_bookkeeper_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (finding,) = databases(Settings(data_dir=str(tmp_path), ledger_url="bookkeeper://127.0.0.1:1/ledgers"))
    assert (finding.what, finding.level) == ("BookKeeper of ledger_url", "fail")
    assert "no ZooKeeper at 127.0.0.1:1" in finding.says and finding.do


def test_files_of_a_bookkeeper_that_are_missing_are_named(tmp_path: Path) -> None:
    for option in ("password_file", "tls_ca_file"):
        (finding,) = databases(Settings(data_dir=str(tmp_path), ledger_url=f"bookkeeper://zk/ledgers?{option}={tmp_path}/none"))
        assert finding.level == "fail" and "No such file" in finding.says
