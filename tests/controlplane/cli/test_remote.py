"""Commands for people: what they ask a platform, what they print, and with which code they end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.remote import contexts
from tests.support.fake_api import FakeApi, fake_api, problem

N = "tenants/acme/namespaces/orders"
S = f"{N}/topics/t/subscriptions"
OUTCOME = {
    "dry_run": True,
    "action": "subscription.clear_backlog",
    "resource": "persistent://acme/orders/t/s",
    "affected": {"backlog_entries": 4, "topics": 1},
    "moved": [{"topic": "persistent://acme/orders/t", "before": "1:0", "after": "1:4"}],
}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Somebody has signed in there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        known = contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "acme", "secret")})
        contexts.save(known)
        yield served


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=given)


def test_login_keeps_a_context_that_only_its_owner_can_read(api: FakeApi, tmp_path: Path) -> None:
    api.answer("GET", "me", (200, {"role": "app@acme"}))
    done = run("login", api.url, "--token-stdin", "--context", "new", "--tenant", "acme", given="other\n")
    assert (done.exit_code, done.output) == (0, f"signed in at {api.url} as app@acme; context 'new' is the current one\n")
    assert api.asked[-1].headers["Authorization"] == "Bearer other"
    file = tmp_path / "magnetar" / "contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    listed = run("contexts", "list")
    assert "other" not in listed.output and "new" in listed.output
    assert run("contexts", "use", "here").exit_code == 0
    assert contexts.load().current == "here"
    assert run("contexts", "remove", "new").exit_code == 0
    assert list(contexts.load().by_name) == ["here"]
    file.chmod(0o644)
    refused = run("topics", "list", "acme/orders")
    assert refused.exit_code == 64 and "can be read by others" in refused.output


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("ws://0.0.0.0:18081", "ws://127.0.0.1:18081"),
        ("ws://127.0.0.1:18081", "ws://127.0.0.1:18081"),
        ("wss://broker.example:443", "wss://broker.example:443"),
        ("", "ws://127.0.0.1:8081"),
    ],
)
def test_login_asks_the_platform_where_the_broker_is(api: FakeApi, told: str, kept: str) -> None:
    api.answer("GET", "me", (200, {"role": "app@acme", "ws_url": told}))
    assert run("login", api.url, "--token-stdin", "--context", "new", given="x\n").exit_code == 0
    assert contexts.load().by_name["new"].broker_url == kept
    assert run("login", api.url, "--token-stdin", "--context", "new", "--broker-url", "pulsar://b:1", given="x\n").exit_code == 0
    assert contexts.load().by_name["new"].broker_url == "pulsar://b:1"


def test_a_wrong_token_leaves_no_context(api: FakeApi) -> None:
    api.answer("GET", "me", (401, problem(401, "authentication_failed", "the token is not valid")))
    assert run("login", api.url, "--token-stdin", "--context", "new", given="x\n").exit_code == 3
    assert list(contexts.load().by_name) == ["here"]


def test_a_token_file_is_read_each_time(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    api.answer("GET", "me", (200, {"role": "app@acme"}))
    assert run("login", api.url, "--token-file", str(file), "--context", "filed").exit_code == 0
    file.write_text("second\n")
    run("trace", "acme/orders/t", "1:0")
    assert api.asked[-1].headers["Authorization"] == "Bearer second"
    assert "first" not in (tmp_path / "magnetar" / "contexts.json").read_text()


def test_lists_are_tables_or_json(api: FakeApi) -> None:
    page = {"items": [{"topic": "persistent://acme/orders/t", "partitions": 2}], "next": None}
    api.answer("GET", f"{N}/topics?limit=1000", (200, page))
    assert run("topics", "list", "acme/orders").output == (
        "TOPIC                       PARTITIONS\npersistent://acme/orders/t  2\n"
    )
    assert json.loads(run("topics", "list", "orders", "--json").output) == page["items"]


def test_control_codes_of_others_do_not_reach_the_terminal(api: FakeApi) -> None:
    message = {"message_id": "1:0", "payload_base64": "G1szMW0=", "headers": {}}  # ESC [ 31 m
    api.answer("GET", f"{N}/topics/t/messages?limit=10", (200, {"items": [message], "next": None}))
    shown = run("peek", "acme/orders/t").output
    assert "\x1b" not in shown and "[31m" in shown


def test_browsing_goes_on_until_enough_was_found(api: FakeApi) -> None:
    message = {
        "message_id": "1:0:-1:-1",
        "publish_time_ms": 0,
        "key": "k\x1b",
        "decoded": True,
        "value": {"id": 1},
        "encryption_keys": [],
        "text": "",
        "size_bytes": 8,
    }
    asked = f"{N}/topics/t/browse?limit=2&path=%24.id&value=1"
    api.answer("GET", asked, (200, {"items": [message], "next": "-1.1.1.-1", "looked_at": 1, "left": 1}))
    further = f"{N}/topics/t/browse?after=-1.1.1.-1&limit=1&path=%24.id&value=1"
    api.answer("GET", further, (200, {"items": [], "next": None, "looked_at": 1, "left": 0}))
    done = run("browse", "acme/orders/t", "--path", "$.id", "--value", "1", "--count", "2")
    assert done.output == '1:0:-1:-1  1970-01-01 00:00:00  [k·] {"id": 1}\n', done.output


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (("clear", "s"), "POST", f"{S}/s/clear?dry_run=true", None),
        (("skip", "s", "3"), "POST", f"{S}/s/skip?dry_run=true", {"entries": 3}),
        (("reset", "s", "--position", "earliest"), "POST", f"{S}/s/reset?dry_run=true", {"position": "earliest"}),
        (("expire", "s", "60"), "POST", f"{S}/s/expire?dry_run=true", {"older_than_s": 60}),
        (("undo", "s", "7"), "POST", f"{S}/s/moves/7/undo?dry_run=true", None),
        (("delete", "s", "--force"), "DELETE", f"{S}/s?dry_run=true&force=true", None),
    ],
)
def test_a_dry_run_is_asked_for_and_told(api: FakeApi, arguments: tuple[str, ...], method: str, path: str, body: Any) -> None:
    api.answer(method, path, (200, OUTCOME))
    done = run("subscriptions", arguments[0], "persistent://acme/orders/t", *arguments[1:], "--dry-run")
    assert done.exit_code == 0, done.output
    assert (api.asked[-1].method, api.asked[-1].body) == (method, body)
    assert done.output.startswith("would be done: subscription.clear_backlog persistent://acme/orders/t/s (4 backlog entries")
    assert "1:0 -> 1:4" in done.output


def test_clients_are_disconnected_by_what_is_known_of_them(api: FakeApi) -> None:
    api.answer("POST", f"{N}/topics/t/disconnect?dry_run=false", (200, OUTCOME))
    assert run("topics", "disconnect", "acme/orders/t", "--kind", "consumer", "--subscription", "s").exit_code == 0
    assert api.asked[-1].body == {"kind": "consumer", "name": "", "subscription": "s", "address": ""}


def test_moves_that_can_be_undone_are_listed(api: FakeApi) -> None:
    move = {"id": "7", "at": "2026-11-01T12:00:00Z", "action": "subscription.reset", "before": {"t": "1:2"}, "undoable": True}
    api.answer("GET", f"{S}/s/moves", (200, {"items": [move], "next": None}))
    assert "subscription.reset" in run("subscriptions", "moves", "acme/orders/t", "s").output


@pytest.mark.parametrize(("status", "code"), [(401, 3), (403, 3), (404, 4), (409, 5), (412, 5), (400, 7), (500, 7)])
def test_the_exit_code_says_what_went_wrong(api: FakeApi, status: int, code: int) -> None:
    api.answer("POST", f"{N}/topics", (status, problem(status, "some_code", "this was wrong")))
    done = run("topics", "create", "acme/orders/t")
    assert (done.exit_code, done.output) == (code, "magnetar: this was wrong (request r1)\n")


def test_a_wrong_command_line_has_a_code_of_its_own(api: FakeApi) -> None:
    for arguments in (
        ("topics", "create"),
        ("topics", "create", "t"),
        ("topics", "paint"),
        ("subscriptions", "reset", "acme/orders/t", "s"),
        ("policies", "set", "acme", "novalue"),
        ("topics", "list", "acme/orders", "--context", "other"),
    ):
        assert run(*arguments).exit_code == 64, arguments
    assert not api.asked


def test_policies_are_json_or_text(api: FakeApi) -> None:
    api.answer("PATCH", f"{N}/policies", (200, {"retention_time_min": 60}))
    run("policies", "set", "acme/orders", "retention_time_min=60", "backlog_quota_bytes_policy=producer_exception")
    assert api.asked[-1].body == {"retention_time_min": 60, "backlog_quota_bytes_policy": "producer_exception"}
    run("policies", "unset", "acme/orders", "retention_time_min")
    assert api.asked[-1].body == {"retention_time_min": None}


def test_the_history_of_policies_is_a_line_a_change(api: FakeApi) -> None:
    change = {"path": "policies.message_ttl_s", "before": None, "after": "60"}
    record = {"id": "7", "at": "2026-11-01T12:00:00Z", "role": "user:olga", "changes": [change]}
    api.answer("GET", f"{N}/policies/history?limit=1000", (200, {"items": [record], "next": None}))
    shown = run("policies", "history", "acme/orders").output.splitlines()[1]
    assert shown.split(maxsplit=3) == ["7", "2026-11-01T12:00:00Z", "user:olga", "message_ttl_s: not set -> 60"]
    api.answer("POST", f"{N}/policies/undo?dry_run=false", (200, {}))
    assert run("policies", "undo", "acme/orders", "7").exit_code == 0
    assert api.asked[-1].body == {"record": "7"}


def test_notices_are_replayed_one_by_one_or_from_a_time_on(api: FakeApi) -> None:
    api.answer("POST", "tenants/acme/notices/n1/replay", (202, {"id": "n1"}))
    assert run("notices", "replay", "n1").exit_code == 0
    api.answer("POST", "tenants/acme/notices/replays", (202, {"notices": 2, "following": None}))
    assert run("notices", "replay", "--since", "2026-11-01T00:00:00Z").exit_code == 0
    assert api.asked[-1].body == {"since": "2026-11-01T00:00:00Z", "failed_only": True}
    assert run("notices", "replay").exit_code == 64


def test_alert_rules_are_made_silenced_and_looked_back_at(api: FakeApi) -> None:
    rules = "tenants/acme/alert-rules"
    api.answer("POST", rules, (201, {"id": "r1"}))
    made = run("alert-rules", "create", "wait", "backlog_entries", "persistent://acme/orders/pay-*", "--threshold", "5")
    assert made.exit_code == 0, made.output
    given = {"name": "wait", "kind": "backlog_entries", "topic": "persistent://acme/orders/pay-*", "threshold": 5, "hold_s": 0}
    assert api.asked[-1].body == given
    api.answer("PUT", f"{rules}/r1/silence", (200, {"id": "r1"}))
    assert run("alert-rules", "silence", "r1", "--for-s", "60", "--reason", "we move").exit_code == 0
    assert api.asked[-1].body == {"for_s": 60, "reason": "we move"}
    api.answer("DELETE", f"{rules}/r1/silence", (200, {"id": "r1"}))
    assert run("alert-rules", "unsilence", "r1").exit_code == 0
    said = {"at": "2026-11-01T12:00:00Z", "kind": "alert_fired", "title": "It fired", "text": "5", "delivered": {}}
    api.answer("GET", f"{rules}/r1/notices?limit=1000", (200, {"items": [said], "next": None}))
    assert "It fired" in run("alert-rules", "history", "r1").output
    api.answer("POST", "tenants/acme/notifications/test", (202, {"id": "n1"}))
    assert run("notices", "test").exit_code == 0


def test_people_have_roles_and_where_these_hold(api: FakeApi) -> None:
    api.answer("PUT", "tenants/acme/members/tom", (200, {"username": "tom"}))
    assert run("people", "set", "tom", "developer", "--namespace", "orders").exit_code == 0
    assert api.asked[-1].body == {"role": "developer", "namespace": "orders", "topics": ""}


def test_an_invitation_prints_its_link_where_mail_does_not_carry_it(api: FakeApi) -> None:
    made = {
        "id": "i1",
        "email": "eve@acme.test",
        "link": "https://it.test/i/x",
        "expires_at": "2026-12-01T00:00:00Z",
    }
    api.answer("POST", "tenants/acme/invitations", (201, made))
    assert run("people", "invite", "eve@acme.test", "viewer", "--link").stdout == f"{made['link']}\n"
    assert api.asked[-1].body == {"email": "eve@acme.test", "role": "viewer", "by_mail": False, "member_days": 0}
    api.answer("POST", "tenants/acme/invitations", (201, {**made, "link": ""}))
    assert "sent to eve@acme.test" in run("people", "invite", "eve@acme.test").stdout
    api.answer("DELETE", "tenants/acme/invitations/i1", (200, {"id": "i1", "state": "revoked"}))
    assert run("people", "revoke-invitation", "i1").exit_code == 0


def test_a_key_s_token_is_all_that_a_script_reads(api: FakeApi) -> None:
    api.answer("POST", "tenants/acme/keys", (201, {"id": "k1", "role": "app@acme", "token": "secret-token"}))
    assert run("keys", "create", "app").stdout == "secret-token\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0 and "_MAGNETAR_COMPLETE" in done.output


def test_help_loads_neither_django_nor_the_sdk() -> None:
    code = "import sys, controlplane.cli; print(sorted({'django', 'websockets', 'msgspec', 'messaging.client'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_teams_from_the_command_line(api: FakeApi) -> None:
    team = {"name": "payments", "description": "pays", "roles": [{"role": "viewer"}], "member_count": 1, "created_at": "now"}
    api.answer("PUT", "tenants/acme/teams/payments", (200, team))
    given = ("--role", "developer@orders/pay-*", "--role", "viewer@*/x", "--role", "billing", "--description", "pays")
    assert run("teams", "set", "payments", *given).exit_code == 0
    roles = [
        {"role": "developer", "namespace": "orders", "topics": "pay-*"},
        {"role": "viewer", "topics": "x"},
        {"role": "billing"},
    ]
    assert api.asked[-1].body == {"roles": roles, "description": "pays"}
    for wrong in ("@orders", "viewer@"):
        refused = run("teams", "set", "payments", "--role", wrong)
        assert (refused.exit_code, len(api.asked)) == (64, 1) and "ROLE@NAMESPACE/PATTERN" in refused.output
    api.answer("GET", "tenants/acme/teams?limit=1000", (200, {"items": [team], "next": None}))
    assert "payments" in run("teams", "list").output
    api.answer("PUT", "tenants/acme/teams/payments/members/ann", (200, {"username": "ann"}))
    assert run("teams", "add", "payments", "ann").exit_code == 0
    api.answer("DELETE", "tenants/acme/teams/payments/members/ann", (204, None))
    assert run("teams", "remove", "payments", "ann").exit_code == 0
    api.answer("DELETE", "tenants/acme/teams/payments", (204, None))
    assert run("teams", "delete", "payments").exit_code == 0
    assert (api.asked[-1].method, api.asked[-1].path) == ("DELETE", "tenants/acme/teams/payments")


def test_issuers_from_the_command_line(api: FakeApi) -> None:
    issuer = {"name": "corp", "issuer": "https://login", "audience": "magnetar", "key_ids": ["e1"], "problem": ""}
    api.answer("PUT", "tenants/acme/issuers/corp", (200, issuer))
    terms = ("--issuer", "https://login", "--audience", "magnetar", "--jwks-url", "https://login/keys")
    assert run("issuers", "set", "corp", *terms, "--role", "orders=app", "--clock-skew-s", "5").exit_code == 0
    assert api.asked[-1].body == {
        **{"issuer": "https://login", "audience": "magnetar", "jwks_url": "https://login/keys"},
        **{"roles": {"orders": "app"}, "role_claim": "sub", "clock_skew_s": 5},
    }
    refused = run("issuers", "set", "corp", *terms, "--role", "orders")
    assert (refused.exit_code, len(api.asked)) == (64, 1) and "VALUE=KEY" in refused.output
    assert run("issuers", "set", "corp", *terms).exit_code != 0, "an issuer without roles is of no use"
    api.answer("GET", "tenants/acme/issuers?limit=1000", (200, {"items": [issuer], "next": None}))
    assert "https://login" in run("issuers", "list").output
    api.answer("DELETE", "tenants/acme/issuers/corp", (204, None))
    assert run("issuers", "delete", "corp").exit_code == 0
    assert api.asked[-1].method == "DELETE"


def test_deleted_namespaces_are_listed_restored_and_purged(api: FakeApi) -> None:
    item = {"recycle_id": "0001-a", "name": "acme/orders", "contents": {"topics": 3}}
    item |= {"deleted_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z", "deleted_by": "user:olga"}
    path = "tenants/acme/recycled-namespaces"
    api.answer("GET", f"{path}?limit=1000", (200, {"items": [item], "next": None}))
    listed = run("recycle-bin", "namespaces", "acme")
    assert listed.exit_code == 0 and "0001-a" in listed.output and "user:olga" in listed.output
    restored = {**OUTCOME, "dry_run": False, "action": "namespace.restore", "moved": []}
    api.answer("POST", f"{path}/0001-a/restore?dry_run=false", (200, restored))
    assert run("recycle-bin", "restore-namespace", "acme", "0001-a").exit_code == 0
    api.answer("DELETE", f"{path}/0001-a?dry_run=true", (200, {**OUTCOME, "action": "namespace.purge", "moved": []}))
    dry = run("recycle-bin", "purge-namespace", "acme", "0001-a", "--dry-run")
    assert dry.exit_code == 0 and "namespace.purge" in dry.output


def test_deleted_tenants_are_listed_restored_and_purged(api: FakeApi) -> None:
    item = {"recycle_id": "0001-a", "name": "acme", "contents": {"namespaces": 3}}
    item |= {"deleted_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z", "deleted_by": "user:admin"}
    api.answer("GET", "recycled-tenants?limit=1000", (200, {"items": [item], "next": None}))
    listed = run("recycle-bin", "tenants")
    assert listed.exit_code == 0 and "0001-a" in listed.output and "user:admin" in listed.output
    restored = {**OUTCOME, "dry_run": False, "action": "tenant.restore", "moved": []}
    api.answer("POST", "recycled-tenants/0001-a/restore?dry_run=false", (200, restored))
    assert run("recycle-bin", "restore-tenant", "0001-a").exit_code == 0
    api.answer("DELETE", "recycled-tenants/0001-a?dry_run=true", (200, {**OUTCOME, "action": "tenant.purge", "moved": []}))
    dry = run("recycle-bin", "purge-tenant", "0001-a", "--dry-run")
    assert dry.exit_code == 0 and "tenant.purge" in dry.output


def test_the_recycle_bin_is_listed_restored_and_purged(api: FakeApi) -> None:
    item = {"recycle_id": "0001-a", "topic": "persistent://acme/orders/t", "partitions": 0, "storage_bytes": 7}
    item |= {"deleted_at": "2026-11-26T10:00:00Z", "expires_at": "2026-11-27T10:00:00Z", "deleted_by": "user:olga"}
    api.answer("GET", f"{N}/recycle-bin?limit=1000", (200, {"items": [item], "next": None}))
    listed = run("recycle-bin", "list", "orders")
    assert listed.exit_code == 0 and "persistent://acme/orders/t" in listed.output and "user:olga" in listed.output
    restored = {**OUTCOME, "dry_run": False, "action": "topic.restore", "affected": {"partitions": 0}, "moved": []}
    api.answer("POST", f"{N}/recycle-bin/0001-a/restore?dry_run=false", (200, restored))
    assert run("recycle-bin", "restore", "acme/orders", "0001-a").exit_code == 0
    api.answer("DELETE", f"{N}/recycle-bin/0001-a?dry_run=true", (200, {**OUTCOME, "action": "topic.purge", "moved": []}))
    dry = run("recycle-bin", "purge", "acme/orders", "0001-a", "--dry-run")
    assert dry.exit_code == 0 and api.asked[-1].path.endswith("dry_run=true") and "topic.purge" in dry.output
