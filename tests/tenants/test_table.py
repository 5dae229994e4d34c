"""The permission table against Django's URL configuration: no hole, no row for nothing, and what a hole does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.test import RequestFactory
from django.urls import ResolverMatch, URLPattern, URLResolver, get_resolver

from controlplane.middleware import TABLED, PermissionTable
from controlplane.permissions import REST
from messaging.permissions.model import Action
from messaging.permissions.roles import BUILT_IN
from tests.support.rest_routes import addresses
from tests.tenants.world import Caller, World


def routes(patterns: list[Any], namespace: str = "") -> set[tuple[str, str]]:
    """(method, route name) of everything below `patterns`."""
    found: set[tuple[str, str]] = set()
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found |= routes(pattern.url_patterns, pattern.namespace or namespace)
        elif isinstance(pattern, URLPattern) and namespace in TABLED:
            methods = getattr(pattern.callback, "methods", None)
            assert methods, f"{namespace}:{pattern.name} does not say which methods it has"
            assert pattern.name, f"a route of {namespace} has no name"
            found |= {(method, f"{namespace}:{pattern.name}") for method in methods}
    return found


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert routes(get_resolver().url_patterns) == set(REST)


def test_a_route_without_a_row_is_closed(world: World) -> None:
    request = RequestFactory().get("/api/v1/new")
    request.resolver_match = ResolverMatch(lambda: None, (), {}, "new", namespaces=["api"])
    response = PermissionTable(lambda request: None).process_view(request, None, (), {})  # type: ignore[arg-type, return-value]
    assert response is not None
    assert response.status_code == 403


def test_strangers_get_nowhere(world: World, caller: Any) -> None:
    """Every address, as nobody, as a stranger with a session, and as one with a token. Both, in turn, ask for the same of a tenant
    that does not exist."""
    world.line.calls.clear()
    before = dict(world.broker.state)
    nobody, stranger, key = caller(""), caller("sam"), Caller(world.token("app@other", tenant="other"))
    asked: Counter[tuple[Caller, bool]] = Counter()
    strangers = [stranger, key]
    for method, path, action in addresses():
        there_and_absent = list(dict.fromkeys((path, path.replace("acme", "absent"))))  # one, where it names no tenant
        assert nobody(method, there_and_absent[-1]).status_code == 401, (method, path)
        if action == "authenticated" and method != "GET":
            continue  # changes what is the caller's own and nothing else: tests/admin_ui/sign_in
        strangers.reverse()
        for who, paths in zip(strangers, (there_and_absent, [path]), strict=True):
            answers = [who(method, at) for at in paths]
            asked[who, len(answers) > 1] += 1
            statuses = {answer.status_code for answer in answers}
            if action == "authenticated":
                assert statuses == {200}, (method, path)
                assert b"acme" not in answers[0].content, (method, path)
            elif action == "service":
                assert statuses == {401}, (method, path)
            else:
                hidden = path.startswith("/api/") and "acme" in path
                assert statuses == ({404} if hidden else {403}), (method, path)
                bodies = [{**answer.json(), "request_id": "", "reason": ""} for answer in answers]
                assert bodies[0] == bodies[-1], (method, path)  # what does not exist and what is not theirs look alike
    assert min(asked.values()) > 100 and len(asked) == 4
    assert not world.line.calls
    assert world.broker.state == before


def test_a_teammate_changes_nothing(world: World, caller: Any) -> None:
    world.line.calls.clear()
    teammate = caller("tom")
    allowed = {*BUILT_IN["metadata"].actions, Action.AUTHENTICATED}  # the latter: what is the caller's own
    rows = [row for row in addresses() if row[0] != "GET" and Action(row[2]) not in allowed]
    assert len(rows) > 60
    for method, path, _ in rows:
        assert teammate(method, path).status_code == 403, (method, path)
    assert not world.line.calls


def test_an_owner_does_nothing_of_the_platform(world: World, caller: Any) -> None:
    owner = caller("olga")
    for method, path, action in addresses():
        if action == "superuser":
            assert owner(method, path).status_code == 403, (method, path)
