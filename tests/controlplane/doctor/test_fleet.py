"""What the doctor says of brokers that share their metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.doctor import fleet as of_fleet
from controlplane.doctor.fleet import Member, copies_findings, findings, fleet, placement_findings
from messaging.broker.runtime.ownership.shared_member import to_do
from messaging.identity import create_secrets
from messaging.settings import Settings


def test_brokers_that_are_well() -> None:
    (finding,) = findings([Member("a", True, "0.1.0"), Member("b", True, "0.1.0")])
    assert finding.level == "ok" and "2 brokers" in finding.says and "a, b" in finding.says


def test_each_that_is_not_ready_is_named_with_the_reason() -> None:
    found = list(
        findings([Member("a", True, "0.1.0"), Member("b", True, "", "the log failed"), Member("c", True, "", "no answer")])
    )
    assert [(each.level, each.says) for each in found] == [("fail", "broker b: the log failed"), ("fail", "broker c: no answer")]
    assert all(each.do for each in found)


def test_one_that_was_not_seen_lately_and_one_of_another_release() -> None:
    well, gone, releases = findings([Member("a", True, "0.1.0"), Member("b", True, "0.2.0"), Member("c", False)])
    assert well.level == "ok"
    assert gone.level == "warn" and gone.says == "not seen lately: c"
    assert releases.level == "warn" and releases.says == "brokers of several releases: 0.1.0: a; 0.2.0: b" and releases.do


def test_a_broker_that_others_cannot_take_over_from_is_named_with_what_to_do() -> None:
    problem = f"what it left cannot be recovered: its log is damaged: {to_do('c')}"
    _, unrecovered, gone = findings([Member("a", True, "0.1.0"), Member("b", True, "0.1.0"), Member("c", False, problem=problem)])
    assert unrecovered.level == "fail" and unrecovered.says == "broker c: what it left cannot be recovered: its log is damaged"
    assert "magnetar brokers recover c --accept-loss" in unrecovered.do
    assert "magnetar brokers forget" in gone.do


def test_what_isolation_policies_leave_unserved_is_told() -> None:
    (finding,) = placement_findings(["isolation policy gold names no broker that runs"])
    assert finding.level == "fail" and "gold" in finding.says and "ns-isolation-policy set" in finding.do
    assert list(placement_findings([])) == []


def test_ledgers_with_too_few_copies_are_told_with_what_to_do() -> None:
    members = [Member("a", True), Member("b", True, "0.1.0", "", 1, 0), Member("c", True, "0.1.0", "", 20, 60_000)]
    one, many = copies_findings(members)
    assert (one.level, one.what) == ("warn", "Copies") and "MagnetarTooFewBookies" in one.do
    assert one.says == (
        "broker b writes 1 ledger with fewer copies than it should have, since 1970-01-01T00:00:00.000Z: too few bookies answer it"
    )
    assert many.says.startswith(
        "broker c writes 20 ledgers with fewer copies than they should have, since 1970-01-01T00:01:00.000Z"
    )


def test_nothing_is_said_where_no_broker_runs(tmp_path: Path) -> None:
    assert list(fleet(Settings(data_dir=str(tmp_path)))) == []


def test_brokers_that_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=str(tmp_path))
    create_secrets(settings)
    monkeypatch.setattr(of_fleet, "running_brokers", lambda settings: ["http://127.0.0.1:1"])
    (finding,) = fleet(settings)
    assert finding.level == "warn" and "could not be listed" in finding.says and finding.do
