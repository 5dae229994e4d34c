"""Our REST API: what it answers, to whom, and how it says no."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import InterfaceError, OperationalError, connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from messaging.identity import issue_token
from messaging.storage.meta_store import PageTopic
from tenants import actions
from tenants.http.errors import server_error
from tenants.models import Key, Namespace, Tenant
from tests.tenants.world import Caller, World

Call = Callable[..., Any]
N = "/api/v1/tenants/acme/namespaces/orders"


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert set(body) == {"type", "title", "status", "detail", "code", "request_id"}
    assert (body["status"], body["code"]) == (status, code)
    assert body["detail"]
    assert body["request_id"] == response.headers["X-Request-ID"]
    return body


def test_a_tenant_from_creation_to_deletion(world: World, call: Call) -> None:
    created = call("POST", "/api/v1/tenants", {"name": "third", "admin_roles": ["boss"]})
    assert created.status_code == 201
    assert created.json() | {"created_at": ""} == {
        "name": "third",
        "admin_roles": ["boss"],
        "allowed_clusters": ["standalone"],
        "created_at": "",
    }
    problem(call("POST", "/api/v1/tenants", {"name": "third"}), 409, "conflict")
    assert call("PATCH", "/api/v1/tenants/third", {"admin_roles": []}).json()["admin_roles"] == []
    state = world.broker.state[("tenant", "third")]
    assert state == {"uid": state["uid"], "admin_roles": [], "allowed_clusters": ["standalone"], "policies": {}}
    assert [row["name"] for row in call("GET", "/api/v1/tenants").json()["items"]] == ["acme", "other", "public", "third"]
    assert call("DELETE", "/api/v1/tenants/third").status_code == 204
    problem(call("GET", "/api/v1/tenants/third"), 404, "not_found")
    problem(call("DELETE", "/api/v1/tenants/acme"), 409, "conflict")
    assert call("DELETE", "/api/v1/tenants/acme?force=true").status_code == 204


def test_lists_come_in_pages(world: World, call: Call) -> None:
    seen: list[str] = []
    address: str | None = "/api/v1/tenants?limit=2"
    while address:
        page = call("GET", address).json()
        assert len(page["items"]) <= 2
        seen += [row["name"] for row in page["items"]]
        address = f"/api/v1/tenants?limit=2&after={page['next']}" if page["next"] else None
    assert seen == ["acme", "other", "public"]
    for limit in ("0", "-1", "x", "1001", "1e2", ""):
        problem(call("GET", f"/api/v1/tenants?limit={limit}"), 400, "invalid_value")


def test_everybody_lists_their_own_tenants(world: World, caller: Callable[[str], Caller]) -> None:
    def names(who: Caller) -> list[str]:
        return [row["name"] for row in who("GET", "/api/v1/tenants").json()["items"]]

    assert names(caller("olga")) == names(caller("tom")) == ["acme"]
    assert names(caller("sam")) == ["other"]
    assert names(caller("admin")) == ["acme", "other", "public"]
    actions.update_tenant(world.admin, "other", admin_roles=["app@acme"])
    assert names(Caller(world.token("app@acme"))) == ["other"]
    assert names(Caller(world.token("more@acme"))) == []


def test_pages_of_topics(world: World, caller: Callable[[str], Caller]) -> None:
    """Each is one question to the store, of the page alone."""
    olga, asked = caller("olga"), []
    stored = world.broker.meta.page_of_topics

    async def counted(namespace: str, *, after: str = "", limit: int = 1000, words: str = "") -> list[PageTopic]:
        asked.append((after, limit))
        return await stored(namespace, after=after, limit=limit, words=words)

    world.broker.meta.page_of_topics = counted  # type: ignore[method-assign]
    world.broker.add_partitioned("persistent://acme/orders/wide", 3)
    for index in range(4):
        world.broker.add(f"persistent://acme/orders/t{index}")
    seen, address = [], f"{N}/topics?limit=2"
    while address:
        page = olga("GET", address).json()
        seen += [(row["topic"].rpartition("/")[2], row["partitions"]) for row in page["items"]]
        address = f"{N}/topics?limit=2&after={page['next']}" if page["next"] else ""
    assert seen == [("t0", 0), ("t1", 0), ("t2", 0), ("t3", 0), ("wide", 3)]
    assert asked == [("", 3), ("persistent://acme/orders/t1", 3), ("persistent://acme/orders/t3", 3)]
    for after in ("%00", "x" * 4097):
        assert "`after`" in problem(olga("GET", f"{N}/topics?after={after}"), 400, "invalid_value")["detail"]


def test_a_namespace_and_its_policies(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    made = olga("POST", "/api/v1/tenants/acme/namespaces", {"name": "new", "policies": {"message_ttl_s": 5}})
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["policies"]) == ("acme/new", {"message_ttl_s": 5})
    at = "/api/v1/tenants/acme/namespaces/new/policies"
    both = {"message_ttl_s": 5, "retention_time_min": 10}
    assert olga("PATCH", at, {"retention_time_min": 10}).json() == both
    assert caller("tom")("GET", at).json() == both
    assert world.broker.state[("namespace", "acme/new")]["policies"] == both
    assert olga("PATCH", at, {"message_ttl_s": None}).json() == {"retention_time_min": 10}
    assert olga("PUT", at, {"auto_topic_creation": False}).json() == {"auto_topic_creation": False}
    assert "message_ttl_s" in problem(olga("PATCH", at, {"message_ttl_s": -1}), 400, "invalid_value")["detail"]
    problem(olga("PATCH", at, {"nonsense": 1}), 400, "invalid_value")
    problem(olga("PATCH", at, [1]), 400, "invalid_value")
    problem(olga("PATCH", at, {"retention_time_min": 0, "retention_size_mb": 1}), 400, "invalid_retention")
    assert olga("DELETE", "/api/v1/tenants/acme/namespaces/new").status_code == 204
    problem(olga("GET", at), 404, "not_found")


def test_topics(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    assert olga("POST", f"{N}/topics", {"name": "plain"}).json() == {"topic": "persistent://acme/orders/plain", "partitions": 0}
    assert olga("POST", f"{N}/topics", {"name": "wide", "partitions": 2}).status_code == 201
    problem(olga("POST", f"{N}/topics", {"name": "wide"}), 409, "conflict")
    listed = caller("tom")("GET", f"{N}/topics").json()
    assert listed == {
        "items": [
            {"topic": "persistent://acme/orders/plain", "partitions": 0},
            {"topic": "persistent://acme/orders/wide", "partitions": 2},
        ],
        "next": None,
        "unreachable": [],
    }
    assert olga("GET", f"{N}/topics/plain/stats").json()["stats"]["subscriptions"] == {}
    assert set(olga("GET", f"{N}/topics/wide/stats").json()["stats"]["partitions"]) == {
        "persistent://acme/orders/wide-partition-0",
        "persistent://acme/orders/wide-partition-1",
    }
    world.broker.connect_producer("persistent://acme/orders/plain")
    problem(olga("DELETE", f"{N}/topics/plain"), 412, "precondition_failed")
    assert olga("DELETE", f"{N}/topics/plain?force=true").status_code == 204
    assert olga("DELETE", f"{N}/topics/wide").status_code == 204
    assert not world.broker.topics
    problem(olga("GET", f"{N}/topics/plain"), 404, "topic_not_found")
    problem(olga("GET", "/api/v1/tenants/acme/namespaces/absent/topics/t"), 404, "not_found")
    problem(olga("POST", f"{N}/topics", {"name": "bad/name"}), 400, "invalid_name")
    problem(olga("POST", f"{N}/topics", {"name": "t-partition-0", "partitions": 2}), 400, "invalid_name")


@pytest.mark.parametrize("name", ["a b", "50%", "ünï", "a?b#c", "a:b;c", "100% sure"])
def test_names_of_topics_survive_the_way(world: World, caller: Callable[[str], Caller], name: str) -> None:
    from urllib.parse import quote

    olga = caller("olga")
    made = olga("POST", f"{N}/topics", {"name": name})
    assert made.json()["topic"] == f"persistent://acme/orders/{name}"
    assert olga("GET", f"{N}/topics/{quote(name, safe='')}").json()["topic"] == made.json()["topic"]


@pytest.mark.parametrize("name", ["%2525", "a%252Fb"])
def test_a_name_that_would_be_decoded_twice_is_refused(world: World, caller: Callable[[str], Caller], name: str) -> None:
    """It would be authorised as one topic and acted on as another."""
    problem(caller("olga")("POST", f"{N}/topics", {"name": name}), 400, "invalid_name")


def test_keys_are_shown_once_and_open_what_was_granted(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    made = olga("POST", "/api/v1/tenants/acme/keys", {"name": "app"})
    assert made.status_code == 201
    assert made.headers["Cache-Control"] == "no-store"
    key = made.json()
    token = key.pop("token")
    assert key["role"] == "app@acme"
    assert key["created_by"] == "user:olga"
    listed = olga("GET", "/api/v1/tenants/acme/keys")
    assert token not in listed.content.decode()
    assert [row["id"] for row in listed.json()["items"]] == [key["id"]]
    app = Caller(token)
    me = app("GET", "/api/v1/me").json()
    assert (me["role"], me["key_id"], me["superuser"]) == ("app@acme", key["id"], False)
    problem(app("GET", f"{N}/topics"), 404, "not_found")
    assert olga("PUT", f"{N}/permissions/app@acme", {"actions": ["consume"]}).status_code == 200
    assert olga("GET", f"{N}/permissions").json()["permissions"] == {"app@acme": ["consume"]}
    assert app("GET", f"{N}/topics").status_code == 200
    problem(app("POST", f"{N}/topics", {"name": "t"}), 403, "not_authorized")
    assert olga("DELETE", f"{N}/permissions/app@acme").status_code == 204
    assert app("GET", f"{N}/topics").status_code == 404
    assert olga("DELETE", f"/api/v1/tenants/acme/keys/{key['id']}").json()["revoked_at"]
    problem(app("GET", "/api/v1/me"), 401, "authentication_failed")
    assert key["last_used_at"] is None
    problem(olga("GET", "/api/v1/tenants/acme/keys/absent"), 404, "not_found")
    problem(olga("POST", "/api/v1/tenants/acme/keys", {"name": "app", "expires_at": "2020-01-01T00:00:00Z"}), 400, "invalid_value")
    problem(olga("POST", "/api/v1/tenants/acme/keys", {"name": "app", "expires_at": "soon"}), 400, "invalid_value")


def test_people_and_the_audit(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    member = {"username": "sam", "role": "metadata", "namespace": "", "topics": "", "expires_at": None}
    assert olga("PUT", "/api/v1/tenants/acme/members/sam", {"role": "metadata"}).json() == member
    assert [row["username"] for row in caller("sam")("GET", "/api/v1/tenants/acme/members").json()["items"]] == [
        "olga",
        "tom",
        "sam",
    ]
    assert olga("DELETE", "/api/v1/tenants/acme/members/sam").status_code == 204
    assert caller("sam")("GET", "/api/v1/tenants/acme/members").status_code == 404
    audit = olga("GET", "/api/v1/tenants/acme/audit?role=user:olga").json()["items"]  # sam's refusal is in the log as well
    assert [row["action"] for row in audit[:2]] == ["member.remove", "member.set"]
    assert audit[1]["after"] == {"role": "metadata", "namespace": "", "topics": ""}
    assert all(row["resource"].startswith("acme") for row in audit)
    assert caller("tom")("GET", "/api/v1/tenants/acme/audit").status_code == 403


def test_a_change_that_no_broker_confirmed_is_503(world: World, caller: Callable[[str], Caller]) -> None:
    world.line.cut()
    detail = problem(caller("olga")("PATCH", f"{N}/policies", {"message_ttl_s": 9}), 503, "not_ready")["detail"]
    assert "was saved" in detail
    assert Namespace.unscoped.get(name="acme/orders").policies == {"message_ttl_s": 9}
    problem(caller("olga")("GET", f"{N}/topics"), 503, "not_ready")


# --- how it says no ----------------------------------------------------------------------------------------------------------


def test_every_error_is_a_problem(world: World, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    problem(call("GET", "/api/v1/nowhere"), 404, "not_found")
    problem(call("GET", "/api/v1/tenants/"), 404, "not_found")
    not_a_method = call("DELETE", "/api/v1/tenants")
    problem(not_a_method, 405, "method_not_allowed")
    assert not_a_method.headers["Allow"] == "GET, POST"
    problem(call("TRACE", "/api/v1/tenants"), 405, "method_not_allowed")
    problem(call("POST", "/api/v1/tenants", b"{"), 400, "invalid_request")
    problem(call("POST", "/api/v1/tenants", b"\xff\xfe"), 400, "invalid_request")
    problem(call("POST", "/api/v1/tenants", b"name=a", content_type="text/plain"), 415, "unsupported_media_type")
    problem(call("POST", "/api/v1/tenants", {}), 400, "invalid_value")
    problem(call("POST", "/api/v1/tenants", {"name": "a", "colour": "red"}), 400, "invalid_value")
    problem(call("POST", "/api/v1/tenants", [1]), 400, "invalid_value")
    problem(call("POST", "/api/v1/tenants", {"name": "a/b"}), 400, "invalid_name")
    problem(call("POST", "/api/v1/tenants", {"name": "..", "admin_roles": []}), 400, "invalid_name")
    monkeypatch.setattr(actions, "create_tenant", lambda *_: 1 / 0)
    problem(call("POST", "/api/v1/tenants", {"name": "a"}), 500, "internal")


@pytest.mark.parametrize("raised", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_no_fault_of_ours(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    def away(*_: object, **__: object) -> None:
        raise raised("the connection is lost")

    monkeypatch.setattr(actions, "create_tenant", away)
    answer = problem(call("POST", "/api/v1/tenants", {"name": "a"}), 503, "not_ready")
    assert "database" in answer["detail"] and "try again" in answer["detail"]
    monkeypatch.setattr("controlplane.middleware.actor_of", away)  # before any view
    problem(call("GET", "/api/v1/tenants"), 503, "not_ready")
    monkeypatch.setattr("admin_ui.sign_in.context.theme_of", away)
    try:
        raise raised("the connection is lost")
    except raised:
        page = server_error(RequestFactory().get("/tenants"))
    assert page.status_code == 503 and b"Internal" not in page.content


def test_a_wrong_token_is_refused_and_never_passed_over_for_a_session(world: World, caller: Callable[[str], Caller]) -> None:

    role, now_s = "app@acme", int(time.time())
    settings = django_settings.MAGNETAR
    good = world.token(role)
    bad = {
        "expired": world.token(role, expires_s=now_s - 1),
        "unknown key": issue_token(settings, role, "no-such-key", now_s),
        "another's key": issue_token(settings, "admin", "key-1", now_s),
        "cut": good[:-4],
        "unsigned": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImp0aSI6InN1cGVydXNlci0xIiwiaXNzIjoibWFnbmV0YXIifQ.",
        "empty": "",
    }
    olga = caller("olga")
    for why, token in bad.items():
        response = olga("GET", "/api/v1/me", **{"Authorization": f"Bearer {token}"})
        problem(response, 401, "authentication_failed")
        assert response.headers["WWW-Authenticate"] == "Bearer", why
    problem(olga("GET", "/api/v1/me", **{"Authorization": "Basic b2xnYTp4"}), 401, "authentication_failed")
    assert olga("GET", "/api/v1/me").json()["role"] == "user:olga"


def test_a_session_changes_nothing_without_the_csrf_token(world: World, caller: Callable[[str], Caller]) -> None:
    olga = caller("olga")
    olga.headers.pop("X-CSRFToken")
    problem(olga("PATCH", f"{N}/policies", {"message_ttl_s": 1}), 403, "not_authorized")
    assert Namespace.unscoped.get(name="acme/orders").policies == {}
    assert olga("GET", f"{N}/policies").status_code == 200


def test_anonymous_uses_public_default_over_loopback_alone(world: World) -> None:
    at = "/api/v1/tenants/public/namespaces/default/topics"
    near, far = Caller(), Caller()
    near.headers.clear()
    assert near("GET", at).status_code == 200
    assert near("GET", f"{N}/topics").status_code == 401
    assert near("POST", at, {"name": "t"}).status_code == 401
    assert near("GET", "/api/v1/me").status_code == 401
    assert far("GET", at).status_code == 401
    assert near.client.get(at, REMOTE_ADDR="192.0.2.9").status_code == 401
    for header in ("X-Forwarded-Host", "X-Real-IP", "Via"):
        assert near("GET", at, **{header: "proxy"}).status_code == 401, header


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/api/v1/tenants", 5),
        ("/api/v1/tenants/acme/namespaces", 8),
        ("/api/v1/tenants/acme/keys", 8),
        (f"{N}/policies", 7),
        (f"{N}/topics", 7),
    ],
)
def test_queries_do_not_grow_with_rows(world: World, caller: Callable[[str], Caller], path: str, most: int) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert caller_of("GET", path).status_code == 200
        return len(queries)

    caller_of = caller("olga")
    few = count()
    for index in range(20):
        Tenant.unscoped.create(name=f"t{index}")
        Namespace.unscoped.create(name=f"acme/n{index}", tenant_id="acme")
        Key.unscoped.create(id=f"k{index}", name="k", role="k@acme", tenant_id="acme")
    assert count() == few <= most
