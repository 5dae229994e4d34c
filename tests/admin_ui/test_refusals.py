"""What a page says in words is not in the audit log as done: every error goes by `admin_ui.pages`, where the log learns of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import admin_ui
from messaging.adminrpc import methods
from messaging.errors import Conflict, InvalidValue, MagnetarError, NotAuthorized, NotReady
from tenants.access import Actor
from tenants.models import AuditRecord
from tests.admin_ui.pages import Browse

TELLING = {"show_error", "add_error", "refused", "fail"}
BUTTONS = {
    "members.require_second_factor": ("/tenants/acme/people/second-factor", {"required": "true"}),
    "members.revoke_invitation": ("/tenants/acme/invitations/revoke", {"invitation": "1"}),
    "audit.verify_audit_log": ("/audit/chain", {}),
    "usage.request_usage_run": ("/usage/compute", {}),
    "invoices.draft_runs.compute_drafts": ("/tenants/acme/invoices/compute", {}),
    "topics.create_topic": ("/tenants/acme/namespaces/orders/new-topic", {"name": "fresh"}),
    "message_files.limit_rate": (
        "/tenants/acme/namespaces/orders/topics/placed/messages/publish",
        {"payload": "x", "encoding": "text"},
    ),
}


def called(node: ast.AST) -> set[str]:
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


def untold(source: str) -> Iterator[int]:
    """Lines where an error is said, or leads elsewhere, and the audit log does not learn of it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            said = any("explain" in called(argument) for argument in node.args)
            if name in ("messages.error", "messages.warning") or (said and name.rpartition(".")[2] in TELLING):
                yield node.lineno
        elif isinstance(node, ast.ExceptHandler) and "HttpResponseRedirect" in called(node) and not called(node) & TELLING:
            yield node.lineno


def test_every_error_that_a_page_says_goes_by_the_one_way() -> None:
    found = {path.as_posix(): list(untold(path.read_text())) for path in Path(admin_ui.__file__).parent.rglob("*.py")}
    by_file = {path.partition("admin_ui/")[2]: len(lines) for path, lines in found.items() if lines}
    # The way itself, at the top of a page and beside a form; and somebody without a second factor, who is denied.
    assert by_file == {"pages.py": 2, "access.py": 1}, found


def test_what_goes_another_way_is_found() -> None:
    redirected = "try:\n    act()\nexcept MagnetarError:\n    return HttpResponseRedirect(back)"
    for source in ("messages.error(request, text)", "form.add_error(None, explain(error))", redirected):
        assert list(untold(source)), source
    assert not list(untold("try:\n    act()\nexcept MagnetarError as error:\n    return refused(request, error, back)"))


def failing(error: MagnetarError, after: dict[str, Any] | None = None) -> Any:
    def act(actor: Actor | str, *_: Any, **__: Any) -> NoReturn:
        if isinstance(actor, Actor):
            actor.trail.after = after
        raise error

    return act


def left(browse: Browse, monkeypatch: pytest.MonkeyPatch, name: str, act: Any) -> list[tuple[str, Any]]:
    """The records that such a request leaves: action and what came of it."""
    path, fields = BUTTONS[name]
    monkeypatch.setattr(f"admin_ui.views.{name}", act)
    client, last = browse("superuser"), AuditRecord.unscoped.latest("id").id
    answer = client.post(path, fields, follow=True)
    assert answer.status_code == 200 and "Something is wrong here" in answer.content.decode()
    return [(row.action, row.after) for row in AuditRecord.unscoped.filter(id__gt=last)]


@pytest.mark.parametrize("name", BUTTONS)
def test_what_is_refused_is_not_recorded_as_done(browse: Browse, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for error in (Conflict("something is wrong here"), InvalidValue("something is wrong here")):
        assert left(browse, monkeypatch, name, failing(error)) == []


@pytest.mark.parametrize("name", BUTTONS)
def test_what_nobody_knows_the_end_of_is_recorded_with_its_error(
    browse: Browse, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ((_, after),) = left(browse, monkeypatch, name, failing(NotReady("something is wrong here")))
    assert after["status"] == "503"


@pytest.mark.parametrize("name", BUTTONS)
def test_a_denial_that_a_page_says_in_words_is_recorded_as_one(browse: Browse, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ((action, after),) = left(browse, monkeypatch, name, failing(NotAuthorized("something is wrong here")))
    assert (action, after["status"], after["why"]) == ("denied", 403, "something is wrong here")


def test_what_was_done_in_part_is_recorded_with_its_error(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    part = failing(Conflict("something is wrong here"), {"persistent://acme/orders/placed-partition-0": "1:2"})
    ((action, after),) = left(browse, monkeypatch, "topics.create_topic", part)
    assert action == "topic.create" and after["status"] == "409" and "persistent://acme/orders/placed-partition-0" in after


def test_a_change_is_not_given_up_as_a_look_is() -> None:
    """What was published after all had been answered with "try again" after five seconds."""
    asked = re.compile(r"broker\.ask\w*\(\s*lambda \w+: \w+\.call\(\s*([A-Z_]+)")
    found = {name for path in Path(admin_ui.__file__).parent.rglob("*.py") for name in asked.findall(path.read_text())}
    assert len(found) > 8 and [name for name in sorted(found) if not getattr(methods, name).changes_nothing] == []
