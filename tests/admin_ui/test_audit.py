"""Sign-ins, sign-outs and passwords in the audit log: who, from where, and whether it was let in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from controlplane import audit
from controlplane.denials import EACH, Denials
from controlplane.permissions import AUDITED, CONSOLE
from tenants.models import AuditRecord
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.people import PASSWORD

Browse = Callable[[str], Client]
ADDRESS = "192.0.2.1"


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "denials", Denials())


def sign_in(client: Client, username: str, password: str) -> int:
    return client.post("/sign-in", {"username": username, "password": password}, REMOTE_ADDR=ADDRESS).status_code


def newest() -> tuple[str, str, str]:
    record = AuditRecord.unscoped.latest("id")
    return record.action, record.role, record.address


def test_signing_in_and_out(browse: Browse) -> None:
    client = browse("")
    sign_in(client, "owner", PASSWORD)
    assert newest() == ("session.sign_in", "user:owner", ADDRESS)
    client.post("/sign-out", REMOTE_ADDR=ADDRESS)
    assert newest() == ("session.sign_out", "user:owner", ADDRESS)
    count = AuditRecord.unscoped.count()
    client.post("/sign-out")  # nobody was signed in
    assert AuditRecord.unscoped.count() == count


@pytest.mark.parametrize("username", ["owner", "nobody-of-this-name", "a\x00b\nc" + "d" * 1000])
def test_a_wrong_password_is_recorded_with_the_name_that_was_tried(browse: Browse, username: str) -> None:
    sign_in(browse(""), username, "wrong-secret")
    action, role, address = newest()
    assert (action, address) == ("session.sign_in_failed", ADDRESS)
    assert role.startswith("user:" + username[:1]) and len(role) <= 155 and role.isprintable()
    assert "wrong-secret" not in str(AuditRecord.unscoped.latest("id").__dict__)


def test_guessing_fills_no_log(browse: Browse) -> None:
    """All in one minute: each has so many records."""
    client, before = browse(""), AuditRecord.unscoped.count()
    with time_machine.travel(datetime(2026, 11, 27, 12, 0, 30, tzinfo=UTC), tick=False):
        for _ in range(40):
            sign_in(client, "owner", "wrong")
    assert AuditRecord.unscoped.count() - before == EACH


def test_changing_the_password_and_failing_to(browse: Browse) -> None:
    client = browse("owner")
    wrong = {"old_password": "wrong", "new_password1": "mint-harbor-77-x", "new_password2": "mint-harbor-77-x"}
    assert client.post("/account/password", wrong).status_code == 200
    assert newest()[:2] == ("user.change_password_failed", "user:owner")
    assert client.post("/account/password", {**wrong, "old_password": PASSWORD}).status_code == 302
    assert newest()[:2] == ("user.change_password", "user:owner")
    assert "mint-harbor" not in str(AuditRecord.unscoped.latest("id").__dict__)


def test_pages_that_refuse_leave_a_record(world: ConsoleBroker, browse: Browse) -> None:
    assert browse("stranger").get("/tenants/acme").status_code == 404
    assert newest()[:2] == ("denied", "user:stranger")
    assert browse("teammate").get("/tenants/acme/keys").status_code == 403
    assert newest()[:2] == ("denied", "user:teammate")
    count = AuditRecord.unscoped.count()
    assert browse("").get("/tenants/acme").status_code == 302  # to the sign-in page: nobody was refused
    assert browse("owner").get("/tenants/acme/namespaces/absent").status_code == 404
    assert AuditRecord.unscoped.count() == count


@pytest.mark.parametrize("path", ["unload", "subscriptions/s/clear"])
def test_what_is_refused_before_it_is_begun_leaves_no_record(world: ConsoleBroker, browse: Browse, path: str) -> None:
    client, count = browse("superuser"), AuditRecord.unscoped.count()
    world.cut()
    answer = client.post(f"/tenants/acme/namespaces/orders/topics/placed/{path}", {"confirmed": "yes", "confirm": "s"}, follow=True)
    assert "not responding" in answer.content.decode() and len(answer.redirect_chain) == 1
    assert AuditRecord.unscoped.count() == count


FORMS = {
    "console:tenant_create": ("/new-tenant", {"name": "fresh"}),
    "console:namespace_create": ("/tenants/acme/new-namespace", {"name": "fresh"}),
    "console:namespace_delete": ("/tenants/globex/namespaces/edge/delete", {"confirm": "globex/edge"}),
    "console:key_create": ("/tenants/acme/new-key", {"name": "app", "limited_by": "role", "expiry": "never"}),
    "console:topic_create": ("/tenants/acme/namespaces/orders/new-topic", {"name": "fresh"}),
    "console:subscription_create": (
        "/tenants/acme/namespaces/orders/topics/placed/new-subscription",
        {"name": "fresh", "position": "earliest"},
    ),
    "console:usage_compute": ("/usage/compute", {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_change_something_leave_a_record(browse: Browse, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_ui.views.usage.request_usage_run", lambda requested_by: "run-1")
    path, fields = FORMS[name]
    assert ("POST", name) in CONSOLE
    response = browse("superuser").post(path, fields, REMOTE_ADDR=ADDRESS)
    assert response.status_code in (200, 302)
    assert newest() == (AUDITED["POST", name], "user:superuser", ADDRESS), response.content[-2000:]
