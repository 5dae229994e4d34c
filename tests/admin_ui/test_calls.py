"""What a page shows below its form is the request that the form makes: the same with curl, on the command line and in Python."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from admin_ui import api_calls
from admin_ui.calls import Call, written
from controlplane.cli import main
from controlplane.cli.remote import contexts
from tenants.actions.issuers import IssuerTerms
from tenants.actions.keys import KeyUse
from tenants.actions.teams import RoleOfTeam
from tests.support.fake_api import PREFIX, Asked, FakeApi, fake_api

CALLS = {
    "key": api_calls.create_key(
        "acme",
        "check's out",
        datetime(2027, 1, 1, 10, tzinfo=UTC),
        [KeyUse(["produce", "consume"], "orders", "pay-*"), KeyUse(["consume"])],
        ["192.0.2.0/24"],
    ),
    "plain key": api_calls.create_key("acme", "app", None, None),
    "rotation": api_calls.rotate_key("acme", "k1", 3600),
    "revocation": api_calls.revoke_key("acme", "k1"),
    "grant": api_calls.grant("acme", "orders", "app@acme", ["produce", "consume"]),
    "role": api_calls.set_role("acme", "keeper", ["produce", "key_admin"], 'keeps "keys" & co'),
    "no role": api_calls.delete_role("acme", "keeper"),
    "policies of a tenant": api_calls.set_policies(("acme",), {"max_topics_per_tenant": 5, "max_keys_per_tenant": None}),
    "policies of a namespace": api_calls.set_policies(
        ("acme", "orders"), {"schema_compatibility": "FULL", "properties": {"a": "b c"}}
    ),
    "no policy of a topic": api_calls.set_policies(("acme", "orders", "placed"), {"message_ttl_s": None}),
    "spend cap": api_calls.set_spend_cap("acme", {"amount": "50.00", "currency": "EUR", "action": "stop", "set_by": "tenant"}, {}),
    "spend cap of the platform": api_calls.set_spend_cap(
        "acme",
        {"amount": "50.00", "currency": "EUR", "action": "throttle", "set_by": "platform"},
        {"tenant_publish_rate_messages": 10, "tenant_publish_rate_bytes": 0},
    ),
    "explanation": api_calls.explain("acme", {"action": "produce", "role": "user:ann b", "namespace": "orders", "topic": "t"}),
    "tuning": api_calls.tune({"message_bytes": 200, "messages_per_s": 20_000, "batching": False, "keyed": True}),
    "team": api_calls.set_team(
        "acme", "payments", [RoleOfTeam("developer", "orders", "pay-*"), RoleOfTeam("viewer", "", "x*")], "pays"
    ),
    "plain team": api_calls.set_team("acme", "payments", [RoleOfTeam("billing")], ""),
    "no team": api_calls.delete_team("acme", "payments"),
    "team member": api_calls.add_team_member("acme", "payments", "ann b"),
    "issuer": api_calls.set_issuer("acme", "corp", IssuerTerms("https://login", "magnetar", "https://login/keys", {"a b": "app"})),
    "particular issuer": api_calls.set_issuer(
        "acme", "corp", IssuerTerms("https://login", "magnetar", "https://login/keys", {"cn=x": "app"}, "groups", 0)
    ),
    "no issuer": api_calls.delete_issuer("acme", "corp"),
    "audit stream": api_calls.set_audit_stream("acme", "https://siem.example/in", oldest=True),
    "purge": api_calls.purge_recycled_topic("acme", "orders", "x1"),
    "purge-tenant": api_calls.purge_recycled_tenant("x1"),
    "purge-namespace": api_calls.purge_recycled_namespace("acme", "x1"),
    "no audit stream": api_calls.delete_audit_stream("acme"),
    "audit stream of the platform": api_calls.set_audit_stream("", "https://siem.example/in", oldest=False),
    "no audit stream of the platform": api_calls.delete_audit_stream(""),
    "admin roles": api_calls.set_admin_roles("acme", ["boss@acme"]),
}
ANSWER = {
    "id": "k1",
    "role": "app@acme",
    "token": "t",
    "ceilings": [],
    "set": {},
    "allowed": False,
    "reasons": [],
    "refusal": "",
    "key_id": "",
    "others": [],
    "others_complete": True,
    "dry_run": False,
    "action": "topic.purge",
    "resource": "",
    "affected": {},
    "moved": [],
}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with fake_api() as served:
        served.of = lambda asked: (served.asked.append(asked), (200, ANSWER))[1]  # type: ignore[method-assign]
        contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", served.url, "", "", "secret")}))
        yield served


def by_curl(text: str, url: str) -> Asked:
    words = shlex.split(text.replace("\\\n", " "))
    data = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
    return Asked(words[2], words[3].removeprefix(url + PREFIX), data, {})


def by_python(text: str, api: FakeApi) -> Asked:
    exec(text, {"TOKEN": "secret"})
    return api.asked[-1]


def by_command(text: str, api: FakeApi) -> Asked:
    done = CliRunner().invoke(main, shlex.split(text)[1:])
    assert done.exit_code == 0, done.output
    return api.asked[-1]


def target(path: str) -> tuple[str, list[str]]:
    """However it is encoded, and in whatever order its parameters come."""
    where, _, query = path.partition("?")
    return unquote(where), sorted(query.split("&"))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_all_three_make_the_same_request(name: str, api: FakeApi) -> None:
    call = CALLS[name]
    texts = {form.language: form.text for form in written([call], api.url)}
    asked = by_curl(texts["curl"], api.url)
    assert (asked.method, asked.body) == (call.method, call.body)
    others = [by_python(texts["Python"], api)]
    if call.command:
        others.append(by_command(texts["Command line"], api))
    for other in others:
        assert (other.method, other.body) == (asked.method, asked.body)
        assert target(other.path.removesuffix("?dry_run=false")) == target(asked.path)


def test_what_has_no_command_is_said() -> None:
    calls = [CALLS["plain key"], Call("PATCH", ("tenants", "acme"), "tenants.update", ("acme",), {})]
    assert "no command yet" in {form.language: form.text for form in written(calls, "http://here")}["Command line"]
    assert [form.language for form in written(calls[1:], "http://here")] == ["curl", "Python"]


def test_the_leaked_token_is_read_from_a_file(api: FakeApi, tmp_path: Path) -> None:
    call = api_calls.revoke_token("acme")
    file = tmp_path / "leaked"
    file.write_text("THE LEAKED TOKEN\n")
    (text,) = (form.text for form in written([call], api.url) if form.language == "Command line")
    assert by_command(text.replace("FILE", str(file)), api).body == call.body
