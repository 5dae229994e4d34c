"""The page of who reads messages, and its files."""

from __future__ import annotations

import csv

import pytest

from tenants import readers
from tenants.access import platform_actor
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


def test_it_does_not_say_that_nobody_may_who_may_read_a_part(browse: Browse) -> None:
    """A key for one namespace was not named when the whole tenant was asked about, and the file and page said nobody."""
    part = "whoever may read only a part of acme is found by asking for that namespace or topic"
    assert part in browse("owner").get(PAGE, {"as": "csv"}).content.decode()
    assert "found by asking for that part" in browse("owner").get(PAGE).content.decode()


def test_a_file_says_what_is_not_in_it(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READ_SHOWN_MAX", 1)
    actor = platform_actor()
    for topic in ("a", "b", "c"):
        record(actor, "message.browse", "acme", f"persistent://acme/orders/{topic}")
    rows = list(csv.reader(browse("owner").get(PAGE, {"as": "csv"}).content.decode().splitlines()))
    assert [row[1] for row in rows if row[0] == "incomplete"][-1] == "2 more roles and resources did, which are not in this file"
