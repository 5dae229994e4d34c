"""Parameters of queries: what is unknown is refused, and nothing happens that was only to be tried."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tenants.models import Namespace
from tenants.rest.document import document
from tests.support.rest_routes import FILLING, addresses
from tests.tenants.world import World

DECLARED = {
    (path.format(**FILLING), method.upper()): {
        parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
    }
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
}
OURS = [(method, path) for method, path, _ in addresses() if path.startswith("/api/")]


def test_every_route_of_our_api_refuses_an_unknown_parameter_and_names_those_it_takes(world: World, call: Any) -> None:
    world.line.calls.clear()
    before = dict(world.broker.state)
    for method, path in OURS:
        response = call(method, f"{path}?dryrun=true", {})
        assert response.status_code == 400, (method, path)
        detail = response.json()["detail"]
        assert "'dryrun' is unknown" in detail, (method, path)
        assert set(re.findall(r"\w+", detail.partition("use ")[2])) == DECLARED[(path, method)], (method, path)
    assert (world.line.calls, world.broker.state) == ([], before)
    assert len(OURS) == len(DECLARED)


@pytest.mark.parametrize("page", ["openapi.json", "docs"])
def test_pages_about_the_api_refuse_one_as_well(db: None, call: Any, page: str) -> None:
    assert call("GET", f"/api/v1/{page}?dry_run=true").status_code == 400


def test_a_parameter_that_comes_twice_is_refused(world: World, call: Any) -> None:
    response = call("DELETE", "/api/v1/tenants/acme/namespaces/orders?force=false&force=true")
    assert response.status_code == 400
    assert "given 2 times" in response.json()["detail"]
    assert Namespace.unscoped.filter(name="acme/orders").exists()


def test_somebody_without_the_right_learns_no_parameters(world: World, caller: Any) -> None:
    assert caller("sam")("GET", "/api/v1/tenants/acme/audit?dry_run=true").status_code == 404
    assert caller("")("GET", "/api/v1/tenants/acme/audit?dry_run=true").status_code == 401


def test_nothing_of_pulsars_api_is_changed_by_a_dry_run(world: World, call: Any) -> None:
    """Pulsar ignores what it does not know, and would delete. It has no dry run anywhere, so nobody misses one."""
    world.line.calls.clear()
    before = dict(world.broker.state)
    for method, path, action in addresses():
        if not path.startswith("/api/") and method != "GET" and action != "service":
            response = call(method, f"{path}?dryRun=true", {})
            assert response.status_code == 400, (method, path)
            assert "dryRun" in response.json()["reason"]
    for name in ("dry_run", "dry-run", "DRYRUN"):
        assert call("DELETE", f"/admin/v2/namespaces/acme/orders?{name}=false").status_code == 400
    assert (world.line.calls, world.broker.state) == ([], before)


def test_pulsars_api_ignores_other_parameters_as_pulsar_does(world: World, call: Any) -> None:
    assert call("GET", "/admin/v2/namespaces/acme?cache=no&dryRun=true").status_code == 200
    assert call("DELETE", "/admin/v2/namespaces/acme/orders?verbose=yes").status_code == 204


@pytest.mark.parametrize("after", ["x", "ëCicÇ", "9" * 30])
def test_a_place_in_a_list_that_is_none_is_refused(world: World, call: Any, after: str) -> None:
    """Lists whose rows are numbered answered 500."""
    answer = call("GET", f"/api/v1/tenants/acme/members?after={after}")
    assert answer.status_code in (200, 400), answer.content
    assert answer.status_code == 200 or "`next`" in answer.json()["detail"]
