"""Lists that may be long: a page of each is asked for, filtered and sorted on the server, with as many queries for 250 rows as for
a few, and what an address asks for is what it shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from admin_ui.row_list import ROWS_A_PAGE, TRAIL_MAX, Column, RowList, cursor_links, list_items, list_rows, page_links
from admin_ui.views.invoices import INVOICE_COLUMNS
from admin_ui.views.keys import KEY_COLUMNS
from admin_ui.views.people import PERSON_COLUMNS
from tenants.models import Key, Membership, Namespace, Team, Tenant, User
from tenants.scoping import platform_scope
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from workers.billing.models import Credit, Invoice, PlanAssignment, PricePlanVersion

MANY = 250


@dataclass(frozen=True)
class Item:
    name: str
    size: int | None = None


ITEMS = [Item(f"item-{index:03}", index % 7 or None) for index in range(MANY)]
COLUMNS = (
    Column("name", "Name", value=lambda item: item.name),
    Column("size", "Size", value=lambda item: item.size, down=True),
    Column("note", "Note"),
)


def listed_of(query: str) -> RowList[Item]:
    return list_items(QueryDict(query), ITEMS, COLUMNS, text=lambda item: item.name)


def names(query: str) -> list[str]:
    return [item.name for item in listed_of(query).rows]


def test_items_are_paged_filtered_and_sorted() -> None:
    assert names("") == [item.name for item in ITEMS[:ROWS_A_PAGE]]
    assert names("page=3") == [item.name for item in ITEMS[2 * ROWS_A_PAGE :]]
    assert names("page=99") == names("page=3") and names("page=x") == names("")
    assert names("q=ITEM-24&sort=-name") == [f"item-{index}" for index in range(249, 239, -1)]
    assert names("sort=wages&q=%00") == names("")  # of another release, or typed by somebody
    sizes = [item.size for item in listed_of("sort=size&page=3").rows]
    assert sizes == sorted(size for size in sizes if size is not None) + [None] * sizes.count(None)  # what is unknown is last
    assert listed_of("sort=-size&page=3").rows[-1].size is None


def test_the_heads_say_how_the_rows_are_sorted_and_what_a_press_does() -> None:
    def heads(query: str) -> list[tuple[str, str]]:
        return [(head.sorted, head.next) for head in listed_of(query).heads]

    assert heads("") == [("ascending", "-name"), ("none", "-size"), ("", "")]
    assert heads("sort=-size") == [("none", "name"), ("descending", "size"), ("", "")]
    assert heads("sort=size") == [("none", "name"), ("ascending", "-size"), ("", "")]


def test_a_page_leads_to_the_one_before_and_the_one_behind_with_all_else_as_it_is() -> None:
    assert page_links(QueryDict("q=a&page=2"), "page", 2, 3).__dict__ == {
        "number": 2, "pages": 3, "previous": "?q=a", "next": "?q=a&page=3",
    }  # fmt: skip
    first = page_links(QueryDict("q=a"), "page", 1, 1)
    assert first.previous == first.next == ""


def test_where_pages_are_cut_by_cursors_previous_leads_back_the_same_way() -> None:
    addresses = [""]
    for cursor in range(1, TRAIL_MAX + 10):
        links = cursor_links(QueryDict(addresses[-1]), str(cursor))
        assert links.previous.removeprefix("?") == (addresses[-2] if cursor > 1 else "") or cursor > TRAIL_MAX
        addresses.append(links.next.removeprefix("?"))
        assert len(addresses[-1]) < 300
    steps, address = 0, addresses[-1]
    while address:
        address, steps = cursor_links(QueryDict(address), "").previous.removeprefix("?"), steps + 1
    assert steps == TRAIL_MAX + 1  # the last of them leads to the first page
    assert cursor_links(QueryDict("past=evil&past=1"), "").previous == ""


@pytest.mark.django_db
def test_rows_cost_a_count_their_keys_and_a_page(
    world: ConsoleBroker, django_assert_num_queries: Callable[[int], CaptureQueriesContext]
) -> None:
    User.objects.bulk_create([User(username=f"user-{index:03}", email=f"{index}@mail.example") for index in range(MANY)])
    columns = (Column("name", "Name", ("username",)), Column("email", "Mail", ("email",)))
    for query, first in (("", "owner"), ("sort=-name", "user-249"), ("q=user-&page=2", "user-100"), ("q=249@MAIL", "user-249")):
        with django_assert_num_queries(3):
            listed = list_rows(QueryDict(query), User.objects.all(), columns, searched=("username", "email"))
        assert listed.rows[0].username == first, query
    assert listed.total == 1 and list_rows(QueryDict("q=nobody"), User.objects.all(), columns, searched=("username",)).rows == []


@pytest.mark.django_db
def test_each_page_has_its_rows_from_whichever_end_it_is_read(world: ConsoleBroker) -> None:
    User.objects.bulk_create([User(username=f"user-{index:03}", first_name=str(index % 7)) for index in range(MANY)])
    columns = (Column("name", "Name", ("username",)), Column("first", "First", ("first_name",)))
    for sort, order in (("name", ("username", "pk")), ("-first", ("-first_name", "-pk"))):
        whole = list(User.objects.order_by(*order).values_list("pk", flat=True))
        pages = [list_rows(QueryDict(f"sort={sort}&page={page}"), User.objects.all(), columns).rows for page in range(1, 4)]
        assert [row.pk for rows in pages for row in rows] == whole


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads plans of SQLite")
@pytest.mark.parametrize(
    ("rows", "order"),
    [
        (User.objects.all(), PERSON_COLUMNS[0].order),
        (Key.unscoped.filter(tenant="acme"), KEY_COLUMNS[0].order),
        (Invoice.unscoped.filter(tenant_uid="u"), INVOICE_COLUMNS[0].order),
    ],
)
def test_the_keys_of_a_page_come_from_an_index_in_its_order(rows: QuerySet[Any], order: tuple[Any, ...]) -> None:
    """Neither sorted nor read with their rows, however many there are."""
    plan = rows.order_by(*order, "pk").values_list("pk", flat=True).explain()
    assert " INDEX " in plan and "TEMP B-TREE" not in plan, plan


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads plans of SQLite")
@pytest.mark.parametrize("column", [column for column in INVOICE_COLUMNS if column.order])
def test_no_document_of_an_invoice_is_read_for_a_page_in_whatever_order(column: Column) -> None:
    rows = Invoice.unscoped.filter(tenant_uid="u", number__icontains="7").order_by(*column.order, "pk")
    assert "USING COVERING INDEX invoice_list" in rows.values_list("pk", flat=True).explain()


def _users(prefix: str, numbers: range) -> list[User]:
    return User.objects.bulk_create([User(username=f"{prefix}-{index:03}") for index in numbers])


def _keys(numbers: range) -> None:
    tenant = Tenant.objects.get(name="acme")
    Key.unscoped.bulk_create(
        [
            Key(id=f"k{index:03}", name=f"key-{index:03}", role=f"key-{index:03}@acme", tenant=tenant, created_by="x")
            for index in numbers
        ]
    )


def _members(numbers: range) -> None:
    Membership.unscoped.bulk_create([Membership(tenant_id="acme", user=user, role="viewer") for user in _users("member", numbers)])


def _teams(numbers: range) -> None:
    Team.unscoped.bulk_create([Team(tenant_id="acme", name=f"team-{index:03}") for index in numbers])


def _tenants(numbers: range) -> None:
    Tenant.objects.bulk_create([Tenant(name=f"tenant-{index:03}", uid=f"uid-{index:03}") for index in numbers])


def _namespaces(numbers: range) -> None:
    Namespace.unscoped.bulk_create([Namespace(name=f"acme/namespace-{index:03}", tenant_id="acme") for index in numbers])


def _price_plans(numbers: range) -> None:
    now = timezone.now()
    PricePlanVersion.objects.bulk_create(
        [
            PricePlanVersion(
                id=f"p{index}", plan=f"plan-{index:03}", version=1, currency="EUR", in_force_from=now, document={}, created_at=now
            )
            for index in numbers
        ]
    )


LISTS = {
    "keys": (_keys, "/tenants/acme/keys", "key-"),
    "members": (_members, "/tenants/acme/people", "member-"),
    "people": (lambda numbers: _users("person", numbers), "/people", "person-"),
    "teams": (_teams, "/tenants/acme/teams", "team-"),
    "tenants": (_tenants, "/tenants", "tenant-"),
    "price plans": (_price_plans, "/price-plans", "plan-"),
    "namespaces": (_namespaces, "/tenants/acme", "namespace-"),
}


def _shown(page: str, prefix: str) -> list[str]:
    """In the rows of tables: the heads of rows."""
    return re.findall(rf'<th scope="row"[^>]*>(?:<a [^>]*>)?({prefix}\d+)', page)


@pytest.mark.parametrize("name", LISTS)
def test_long_lists_have_pages_a_filter_and_an_order_and_ask_as_little_for_many_rows(browse: Browse, name: str) -> None:
    make, path, prefix = LISTS[name]
    client = browse("superuser")
    with platform_scope():
        make(range(3))
    text(client, path)
    with CaptureQueriesContext(connection) as few:
        text(client, path)
    with platform_scope():
        make(range(3, MANY))
    with CaptureQueriesContext(connection) as many:
        first = text(client, path)
    assert len(many) <= len(few) + (name == "namespaces"), [query["sql"][:150] for query in many.captured_queries]
    seen, page = _shown(first, prefix), first
    while 'rel="next"' in page:
        page = text(client, path + _link(page, "next"))
        seen += _shown(page, prefix)
    assert sorted(seen) == [f"{prefix}{index:03}" for index in range(MANY)]
    before = text(client, path + _link(page, "prev"))
    assert _shown(before, prefix) == seen[-len(_shown(page, prefix)) - len(_shown(before, prefix)) : -len(_shown(page, prefix))]
    assert set(_shown(text(client, path, q=f"{prefix}24"), prefix)) == {f"{prefix}{index}" for index in range(240, 250)}
    assert _shown(text(client, path, sort="-name", q=prefix), prefix)[0] == f"{prefix}249"
    assert _shown(text(client, path, sort="name", q=prefix), prefix)[0] == f"{prefix}000"


def test_a_tenant_with_many_credits_and_plans_is_shown_a_page_of_each(browse: Browse) -> None:
    client, now = browse("superuser"), timezone.now()
    with platform_scope():
        of = {"tenant": "acme", "tenant_uid": Tenant.objects.get(name="acme").uid}

        def give(numbers: range) -> None:
            for index in numbers:
                at = now - timedelta(days=index)
                Credit.objects.create(**of, title=f"credit-{index:03}", currency="EUR", amount_minor=1, created_at=at)
                PlanAssignment.objects.create(**of, plan=f"plan-{index:03}", starts_at=at)

        give(range(2))
        with CaptureQueriesContext(connection) as few:
            text(client, "/tenants/acme/billing")
        give(range(2, ROWS_A_PAGE + 2))
    with CaptureQueriesContext(connection) as many:
        page = text(client, "/tenants/acme/billing")
    assert len(many) <= len(few)
    assert len(_shown(page, "credit-")) == len(_shown(page, "plan-")) == ROWS_A_PAGE
    assert "credit-000" in text(client, "/tenants/acme/billing", **{"credits-page": "2"})


def _link(page: str, rel: str) -> str:
    found = re.search(rf'<a href="([^"#]*)[^"]*" rel="{rel}"', page)
    assert found, rel
    return found[1].replace("&amp;", "&")
