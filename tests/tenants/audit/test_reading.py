"""Reading the audit log: pages, filters, and who may."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from tenants import actions
from tenants.audit import reading
from tenants.audit.chain import append
from tenants.audit.diff import CHANGES_MAX, Change, changes
from tenants.audit.export_lines import read_lines
from tenants.audit.reading import Filters, read_page, records_of
from tenants.audit.verification import verify_part
from tenants.models import AuditRecord, Tenant
from tenants.scoping import platform_scope, tenant_scope
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
    (older,) = re.findall(r'<a href="(\S+)#audit" rel="next">', page)
    further = read("GET", f"/tenants/acme/audit{html.unescape(older)}").content.decode()
    assert "k0 (" in further and "k59 (" not in further and 'rel="next"' not in further
    (newer,) = re.findall(r'<a href="(\S+)#audit" rel="prev">', further)
    assert "k59 (" in read("GET", f"/tenants/acme/audit{html.unescape(newer)}").content.decode()
    assert "<script>" not in read("GET", "/tenants/acme/audit?role=<script>").content.decode()


NEW_ROUTES = ["audit/export", "audit/heads", "audit/verification"]


@pytest.mark.parametrize("route", NEW_ROUTES)
def test_who_may_not_use_the_routes_of_the_platforms_log(world: World, caller: Callable[[str], Caller], route: str) -> None:
    assert caller("olga")("GET", f"/api/v1/{route}").status_code == 403
    assert caller("")("GET", f"/api/v1/{route}").status_code == 401
    if route != "audit/export":
        assert caller("olga")("POST", f"/api/v1/{route}").status_code == 403
    page = "/audit/chain" if route != "audit/export" else "/audit/export"
    assert caller("olga")("GET", page).status_code == 403
    assert AuditRecord.unscoped.filter(action="denied", role="user:olga").exists()


@pytest.mark.parametrize(("username", "status"), [("olga", 200), ("tom", 403), ("sam", 404), ("admin", 200)])
def test_who_may_export_a_tenants_log(world: World, caller: Callable[[str], Caller], username: str, status: int) -> None:
    assert caller(username)("GET", "/api/v1/tenants/acme/audit/export").status_code == status
    assert caller(username)("GET", "/tenants/acme/audit/export").status_code == status


def test_an_export_of_a_tenant_is_a_chain_that_it_can_verify(world: World, caller: Callable[[str], Caller]) -> None:
    actions.create_key(world.actor("olga"), "acme", "app")
    answer = caller("olga")("GET", "/api/v1/tenants/acme/audit/export")
    lines = b"".join(answer.streaming_content).splitlines()
    assert answer["Content-Disposition"] == 'attachment; filename="audit-acme.jsonl"'
    assert {json.loads(line)["tenant"] for line in lines} == {"acme"}
    report = verify_part(read_lines(lines))
    assert report.intact and report.records == len(lines) > 3
    changed = [line.replace(b"user:olga", b"user:tom") for line in lines]
    assert not verify_part(read_lines(changed)).intact
    assert not verify_part(read_lines([*lines[:1], *lines[2:]])).intact


def test_an_export_for_a_spreadsheet_holds_no_formula(world: World, caller: Callable[[str], Caller]) -> None:
    actions.set_policies(world.actor("olga"), "acme/orders", {"properties": {"a": "b"}})
    append([AuditRecord(role="=cmd()", action="a", resource="x", tenant="acme", tenant_uid=Tenant.unscoped.get(name="acme").uid)])
    answer = caller("olga")("GET", "/tenants/acme/audit/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert rows[-1]["role"] == "'=cmd()"
    assert json.loads(rows[-2]["after"]) == {"policies": {"properties": {"a": "b"}}}


def test_an_export_is_made_in_pieces(world: World, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any) -> None:
    append([AuditRecord(role="r", action="a", resource="x" * 1_000) for _ in range(300)])
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 50)
    rows = reading.read_all(AuditRecord.unscoped.filter(action="a"), Filters())
    pieces = reading.export_pieces(b"x" * 1_000 for _ in rows)
    with django_assert_max_num_queries(2):
        assert len(next(pieces)) < 70_000
    assert sum(len(piece) for piece in pieces) > 200_000


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-01", "key_id=" + "k" * 65, "format=xml", "color=red", "since=1900-01-01"]
)
def test_a_wrong_filter_is_refused_by_name(world: World, caller: Callable[[str], Caller], query: str) -> None:
    answer = caller("olga")("GET", f"/api/v1/tenants/acme/audit/export?{query}")
    assert answer.status_code == 400 and query.partition("=")[0] in answer.json()["detail"]


def test_filters_together(world: World, caller: Callable[[str], Caller]) -> None:
    olga = world.actor("olga")
    for name in ("a", "b"):
        actions.create_key(olga, "acme", name)
    read = caller("olga")
    items = read("GET", "/api/v1/tenants/acme/audit?action=key.create&role=user:olga&address=&request_id=request-1").json()["items"]
    assert [item["after"]["name"] for item in items] == ["b", "a"]
    assert {change["path"] for change in items[0]["changes"]} >= {"name"}
    assert read("GET", "/api/v1/tenants/acme/audit?action=key.create&role=user:tom").json()["items"] == []
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    assert read("GET", f"/api/v1/tenants/acme/audit?since={tomorrow}").json()["items"] == []
    assert len(read("GET", f"/api/v1/tenants/acme/audit?until={tomorrow}&action=key.create").json()["items"]) == 2


@pytest.fixture
def many(world: World) -> str:
    """So many records of a tenant that a page does not look at all of them; its uid."""
    uid = Tenant.unscoped.get(name="acme").uid
    append([AuditRecord(role=f"r{number % 3}", action=f"a{number % 2}", resource="x", tenant_uid=uid) for number in range(60)])
    return uid


def test_a_page_looks_at_so_many_records_and_says_where_it_stopped(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SCAN_MAX", 10)
    rows = AuditRecord.unscoped.filter(tenant_uid=many)
    seen, after, pages = [], "", 0
    while True:
        page = read_page(rows, Filters(action="a1", role="r1"), limit=2, after=after)
        seen += [row.id for row in page.records]
        pages += 1
        if page.following is None:
            break
        assert page.looked_to is None or len(page.records) <= 2
        after = page.following
    expected = rows.filter(action="a1", role="r1").order_by("-id").values_list("id", flat=True)
    assert seen == list(expected) and len(seen) == 10 and pages >= 5


@pytest.mark.parametrize("name", ["action", "role", "key_id", "resource", "request_id", ""])
def test_within_a_tenant_each_filter_is_read_from_an_index_in_its_order(many: str, name: str) -> None:
    with tenant_scope("acme"):
        rows = records_of("acme").order_by("-id")
    rows = rows.filter(**{name: "x"}) if name else rows
    plan = rows[:50].explain()
    if connection.vendor == "sqlite":
        assert "USING INDEX audit_" in plan, plan
        assert name == "request_id" or "TEMP B-TREE FOR ORDER BY" not in plan, plan


@pytest.mark.parametrize(
    "query", ["", "?action=a1", "?action=a1&role=r1&resource=x", "?since=2026-01-01T00%3A00%3A00Z&until=2100-01-01T00%3A00%3A00Z"]
)
def test_the_queries_of_a_page_do_not_grow(
    many: str, caller: Callable[[str], Caller], query: str, django_assert_max_num_queries: Any
) -> None:
    read = caller("olga")
    read("GET", f"/tenants/acme/audit{query}")
    with django_assert_max_num_queries(14):
        assert read("GET", f"/tenants/acme/audit{query}").status_code == 200


def test_what_differs_is_told_name_by_name() -> None:
    before = {"policies": {"message_ttl_s": 60, "properties": {"a": "1", "b": "2"}}, "same": [1]}
    after = {"policies": {"message_ttl_s": 90, "properties": {"a": "1", "c": None}}, "same": [1]}
    assert changes(before, after) == [
        Change("policies.message_ttl_s", "60", "90"),
        Change("policies.properties.b", "2", None),
        Change("policies.properties.c", None, "null"),
    ]
    assert changes(None, {"name": "app"}) == [Change("name", None, "app")]
    assert changes(None, None) == [] and changes("x", "y") == [Change("value", "x", "y")]
    assert len(changes({}, {str(number): number for number in range(500)})) == CHANGES_MAX
    assert len(changes(None, {"a": "x" * 5_000})[0].after or "") < 600


def test_the_page_shows_the_difference_and_the_request(world: World, caller: Callable[[str], Caller]) -> None:
    actions.set_policies(world.actor("olga"), "acme/orders", {"message_ttl_s": 77})
    page = caller("olga")("GET", "/tenants/acme/audit?action=namespace.set_policies").content.decode()
    assert "policies.message_ttl_s" in page and "<ins>77</ins>" in page and "request request-1" in page
    assert "/tenants/acme/audit/export?action=namespace.set_policies&amp;format=csv" in page


def test_the_platforms_page_shows_all_tenants(world: World, caller: Callable[[str], Caller]) -> None:
    page = caller("admin")("GET", "/audit?action=tenant.create").content.decode()
    assert "acme" in page and "other" in page
    with platform_scope():
        assert AuditRecord.objects.filter(action="tenant.create").count() == 2
