"""Reading the audit log: pages, filters, and who may."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenants import actions
from tests.tenants.world import Caller, World


def test_the_log_is_read_in_pages_and_filtered(world: World, caller: Callable[[str], Caller]) -> None:
    olga = world.actor("olga")
    for index in range(7):
        actions.create_key(olga, "acme", f"k{index}")
    read = caller("olga")
    path = "/api/v1/tenants/acme/audit?limit=3&action=key.create"
    found: list[str] = []
    following: str | None = ""
    while following is not None:
        page = read("GET", path + (f"&after={following}" if following else "")).json()
        found += [item["after"]["name"] for item in page["items"]]
        following = page["next"]
    assert found == [f"k{index}" for index in range(6, -1, -1)]
    assert read("GET", "/api/v1/tenants/acme/audit?role=nobody").json() == {"items": [], "next": None}
    assert read("GET", "/api/v1/tenants/acme/audit?after=x").status_code == 400
    assert read("GET", "/api/v1/tenants/acme/audit?action=" + "a" * 65).status_code == 400


@pytest.mark.parametrize(("username", "status"), [("olga", 200), ("tom", 403), ("sam", 404), ("admin", 200)])
def test_who_may_read_a_tenants_log(world: World, caller: Callable[[str], Caller], username: str, status: int) -> None:
    assert caller(username)("GET", "/api/v1/tenants/acme/audit").status_code == status
    assert caller(username)("GET", "/tenants/acme/audit").status_code == status


@pytest.mark.parametrize(("username", "status"), [("olga", 403), ("admin", 200)])
def test_who_may_read_the_platforms_log(world: World, caller: Callable[[str], Caller], username: str, status: int) -> None:
    assert caller(username)("GET", "/api/v1/audit").status_code == status


def test_the_platforms_log_shows_deleted_tenants_and_what_is_of_none(world: World, call: Caller) -> None:
    actions.delete_tenant(world.admin, "acme", force=True)
    seen = {(item["action"], item["tenant"]) for item in call("GET", "/api/v1/audit").json()["items"]}
    assert {("tenant.delete", "acme"), ("platform.create", "")} <= seen


def test_the_page_of_the_log_filters_and_leads_to_older_records(world: World, caller: Callable[[str], Caller]) -> None:
    for index in range(60):
        actions.create_key(world.actor("olga"), "acme", f"k{index}")
    read = caller("olga")
    page = read("GET", "/tenants/acme/audit?action=key.create").content.decode()
    assert "k59 (" in page and "k0 (" not in page and "namespace.create</td>" not in page
    older = page.partition('class="panel-foot"><a href="')[2].partition('"')[0].replace("&amp;", "&")
    assert "k0 (" in read("GET", f"/tenants/acme/audit{older}").content.decode()
    assert "<script>" not in read("GET", "/tenants/acme/audit?role=<script>").content.decode()
