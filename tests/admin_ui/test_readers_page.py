"""The page of who reads messages, and its files."""

from __future__ import annotations

import csv

import pytest

from tenants import explanations, readers
from tenants.access import platform_actor
from tenants.actions import KeyUse, create_key, grant_permission
from tenants.actions.change import record
from tests.admin_ui.pages import Browse, text

PAGE = "/tenants/acme/readers"


def test_the_report_is_shown_and_taken_along(browse: Browse) -> None:
    owner = browse("owner")
    assert "user:owner" in text(owner, PAGE) and "does not exist" in text(owner, PAGE, namespace="nowhere")
    rows = list(csv.DictReader(owner.get(PAGE, {"as": "csv"}).content.decode().splitlines()))
    assert ("may", "user:owner", "True") in [(row["what"], row["role"], row["may_consume"]) for row in rows]
    assert any(reader["role"] == "user:owner" for reader in owner.get(PAGE, {"as": "json"}).json()["may"])
    assert "readers-acme.csv" in owner.get(PAGE, {"as": "csv"})["Content-Disposition"]
    assert browse("teammate").get(PAGE).status_code == 403


def test_who_may_read_a_part_is_listed_with_the_part(browse: Browse) -> None:
    """A key for one namespace was not named when the whole tenant was asked about; nor was who had some topics, or a grant."""
    actor, topic = platform_actor(), "persistent://acme/orders/placed"
    scoped = create_key(actor, "acme", "scoped", scope=[KeyUse(["consume"], "orders", "pl*")])
    grant_permission(actor, "acme/orders", "granted@acme", ["consume"], topic)
    grant_permission(actor, "acme/orders", "feeder@acme", ["produce"], topic)

    def parts(**asked: str) -> dict[str, tuple[str, bool]]:
        rows = browse("owner").get(PAGE, {"as": "json", **asked}).json()["may_in_part"]
        return {row["role"]: (row["where"], row["consumes"]) for row in rows}

    expected = {"scoped@acme": ("topics pl* of namespace acme/orders", True), "granted@acme": (topic, True)}
    assert parts() == parts(namespace="orders") == expected
    assert parts(namespace="orders", topic="placed") == {}
    shown = text(browse("owner"), PAGE)
    assert scoped.key.id in shown and "Who may in a part" in shown
    rows = csv.DictReader(browse("owner").get(PAGE, {"as": "csv"}).content.decode().splitlines())
    assert {(row["role"], row["resource"]) for row in rows if row["what"] == "may_in_part"} == {
        (role, where) for role, (where, _) in expected.items()
    }


def test_nobody_is_listed_for_a_part_who_may_in_all_of_it(browse: Browse) -> None:
    actor = platform_actor()
    grant_permission(actor, "acme/orders", "user:owner", ["consume"])
    assert not any(row["role"] == "user:owner" for row in browse("owner").get(PAGE, {"as": "json"}).json()["may_in_part"])


def test_a_file_says_what_is_not_in_it(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READ_SHOWN_MAX", 1)
    actor = platform_actor()
    for topic in ("a", "b", "c"):
        record(actor, "message.browse", "acme", f"persistent://acme/orders/{topic}")
    rows = list(csv.reader(browse("owner").get(PAGE, {"as": "csv"}).content.decode().splitlines()))
    assert [row[1] for row in rows if row[0] == "incomplete"][-1] == "2 more roles and resources did, which are not in this file"


def test_it_says_so_where_there_are_more_grants_than_are_looked_at(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanations, "SUBJECTS_MAX", 10)
    actor = platform_actor()
    for number in range(11):
        grant_permission(actor, "acme/orders", "app@acme", ["consume"], f"persistent://acme/orders/t{number:02}")
    report = browse("owner").get(PAGE, {"as": "json"}).json()
    assert len(report["may_in_part"]) == 10 and report["complete"] is False
