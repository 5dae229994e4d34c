"""The page of who reads messages, and its files."""

from __future__ import annotations

import csv

from tests.admin_ui.pages import Browse, text

PAGE = "/tenants/acme/readers"


def test_the_report_is_shown_and_taken_along(browse: Browse) -> None:
    owner = browse("owner")
    assert "user:owner" in text(owner, PAGE) and "does not exist" in text(owner, PAGE, namespace="nowhere")
    rows = list(csv.DictReader(owner.get(PAGE, {"as": "csv"}).content.decode().splitlines()))
    assert ("may", "user:owner", "True") in [(row["what"], row["role"], row["may_consume"]) for row in rows]
    assert any(reader["role"] == "user:owner" for reader in owner.get(PAGE, {"as": "json"}).json()["may"])
    assert browse("teammate").get(PAGE).status_code == 403
