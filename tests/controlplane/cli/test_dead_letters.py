"""`magnetar dead-letters`: groups of many requests are added up, and what is redriven is what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.remote import contexts
from tests.support.fake_api import FakeApi, fake_api

AT = "tenants/acme/dead-letters"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Somebody has signed in there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "acme", "secret")}))
        yield served


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["dead-letters", *arguments])


def group(value: str, messages: int, oldest_ms: int) -> dict[str, Any]:
    return {"value": value, "messages": messages, "entries": 1, "staying": 0, "oldest_ms": oldest_ms, "newest_ms": oldest_ms}


def page(following: str | None, *groups: dict[str, Any], **fields: Any) -> tuple[int, dict[str, Any]]:
    empty: dict[str, Any] = {"beyond": 0, "left_out": [], "more_topics": False}
    return 200, {**empty, "groups": list(groups), "next": following, **fields}


def test_groups_of_several_requests_are_added_up(api: FakeApi) -> None:
    away = [{"topic": "t-s-DLQ", "why": "its broker is away"}]
    first = f"{AT}?by=reason&property_name=kind&property_value=x"
    second = f"{AT}?after=x&by=reason&property_name=kind&property_value=x"
    api.answer("GET", first, page("x", group("odd", 2, 5), left_out=away))
    api.answer("GET", second, page(None, group("late", 4, 9), group("odd", 3, 1)))
    shown = run("groups", "--by", "reason", "--property", "kind=x", "--json")
    assert shown.exit_code == 0, shown.output
    rows = json.loads(shown.stdout)
    assert [(row["value"], row["messages"], row["oldest_ms"], row["newest_ms"]) for row in rows] == [
        ("odd", 5, 1, 5),
        ("late", 4, 9, 9),
    ]
    assert "left out: t-s-DLQ: its broker is away" in shown.stderr


def test_a_redrive_says_what_was_started_and_what_was_not(api: FakeApi) -> None:
    job = {"id": "j1", "topic": "a-DLQ", "target": "", "state": "running", "looked_at": 0, "moved": 0, "left": 0, "error": ""}
    refused = [{"topic": "b-DLQ", "why": "too many"}]
    api.answer("POST", f"{AT}/redrives", (201, {"started": [job], "not_started": refused}))
    shown = run("redrive", "--reason", "odd", "--rate", "5", "--topic", "a-DLQ", "--topic", "b-DLQ")
    assert shown.exit_code == 0 and "j1" in shown.stdout and "not started: b-DLQ: too many" in shown.stderr
    body = api.asked[-1].body
    assert (body["reason"], body["rate"], body["topics"], body["redriven_max"]) == ("odd", 5, ["a-DLQ", "b-DLQ"], 3)


def test_a_dry_run_asks_for_outcomes_and_starts_nothing(api: FakeApi) -> None:
    api.answer("GET", f"{AT}?by=outcome&redriven_max=3", page(None, group("to persistent://acme/orders/t", 2, 5)))
    shown = run("redrive", "--dry-run")
    assert shown.exit_code == 0 and "to persistent://acme/orders/t" in shown.output
    assert [asked.method for asked in api.asked] == ["GET"]


@pytest.mark.parametrize("wrong", [["redrive", "--dry-run", "--message", "1:2"], ["list", "--property", "kind"]])
def test_what_makes_no_sense_is_refused(api: FakeApi, wrong: list[str]) -> None:
    assert run(*wrong).exit_code != 0 and not api.asked
