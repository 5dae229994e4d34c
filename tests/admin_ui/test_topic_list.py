"""The list of topics: one page while there are few, and pages of the server when there are many."""

from __future__ import annotations

import re

import pytest
from django.http import QueryDict

from admin_ui import topic_list
from admin_ui.topic_list import TopicsAsked
from messaging.adminrpc.methods import NAMESPACES_LIVE
from messaging.adminrpc.topics import LiveTotals, NamespaceLive
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import ORDERS
from tests.admin_ui.scripted_live import live_row, unloaded_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def many(world: ConsoleBroker, monkeypatch: pytest.MonkeyPatch) -> ConsoleBroker:
    """30 topics, of which the browser may have 20 at once, and a page has 10."""
    monkeypatch.setattr(topic_list, "WHOLE_MAX", 20)
    monkeypatch.setattr(topic_list, "PAGE", 10)
    rows = [live_row(f"persistent://acme/orders/t{number:02}", rate_in=float(number), backlog_entries=2) for number in range(25)]
    world.set_rows(ORDERS, [*rows, *(unloaded_row(f"persistent://acme/orders/u{number:02}") for number in range(5))])
    return world


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><div class="named"><a href="[^"]*">([^<]*)</a>', page)


def following(page: str, label: str = "Next page") -> str:
    found = re.search(rf'<a href="([^"]*)"[^>]*>{label}</a>', page)
    return found[1].replace("&amp;", "&") if found else ""


def test_every_topic_is_on_one_page_by_name(browse: Browse, many: ConsoleBroker) -> None:
    client, address, seen = browse("owner"), NAMESPACE, list[str]()
    while address:
        page = text(client, address)
        assert len(names(page)) == 10
        seen += names(page)
        address = f"{NAMESPACE}{following(page)}" if following(page) else ""
    assert seen == [*(f"t{number:02}" for number in range(25)), *(f"u{number:02}" for number in range(5))]
    for first in ("t10", "t00"):
        page = text(client, f"{NAMESPACE}{following(page, 'Previous page')}")
        assert names(page)[0] == first
    assert not following(page, "Previous page")


def test_by_a_figure_the_loaded_ones_and_what_is_said_of_the_others(browse: Browse, many: ConsoleBroker) -> None:
    client = browse("owner")
    page = text(client, f"{NAMESPACE}?sort=-rate_in")
    assert names(page) == [f"t{number:02}" for number in range(24, 14, -1)]
    assert "Loaded topics: 10 of 25" in page and "Topics that are not loaded are not among them" in page
    assert 'aria-sort="descending"><button class="sort" form="topics-asked" name="sort" value="rate_in"' in page
    assert '?watch=1"' in page and "t24&quot;" in page, "the live feed follows these rows"
    page = text(client, f"{NAMESPACE}{following(page)}")
    assert names(page) == [f"t{number:02}" for number in range(14, 4, -1)]
    assert following(page, "Previous page") == "?sort=-rate_in"
    page = text(client, f"{NAMESPACE}{following(page)}")
    assert names(page) == ["t04", "t03", "t02", "t01", "t00"] and not following(page)
    assert names(text(client, f"{NAMESPACE}?sort=rate_in"))[0] == "t00"


def test_a_filter_reaches_all_pages_and_stays_with_the_order(browse: Browse, many: ConsoleBroker) -> None:
    client = browse("owner")
    page = text(client, f"{NAMESPACE}?q=U0")
    assert names(page) == [f"u{number:02}" for number in range(5)] and 'value="U0"' in page
    page = text(client, f"{NAMESPACE}?q=t&sort=-rate_in")
    assert following(page) == "?q=t&sort=-rate_in&page=2"
    assert "No topics match" in text(client, f"{NAMESPACE}?q=none-of-them")
    assert "No loaded topic’s name contains “u”" in text(client, f"{NAMESPACE}?q=u&sort=-rate_in")


def test_totals_are_of_the_namespace_not_of_the_page(browse: Browse, many: ConsoleBroker) -> None:
    page = text(browse("owner"), f"{NAMESPACE}?q=t01")
    assert '<span data-total="topics">30</span>' in page
    assert '<span data-total="rate_in">300</span>' in page
    assert '<dd data-total="backlog_entries">≥ 50</dd>' in page


def test_few_topics_are_sorted_and_filtered_before_any_script_runs(browse: Browse, world: ConsoleBroker) -> None:
    rates = {"alpha": 1.0, "beta": 30.0, "gamma": 20.0}
    world.set_rows(ORDERS, [live_row(f"persistent://acme/orders/{name}", rate_in=rate) for name, rate in rates.items()])
    client = browse("owner")
    assert names(text(client, f"{NAMESPACE}?sort=-rate_in")) == ["beta", "gamma", "alpha"]
    assert names(text(client, f"{NAMESPACE}?q=mm")) == ["gamma"]
    assert names(text(client, f"{NAMESPACE}?sort=-topic")) == ["gamma", "beta", "alpha"]
    assert "data-whole" in text(client, NAMESPACE)


@pytest.mark.parametrize("query", ["sort=weight", "sort=-", "page=0", "page=x", "page=999999999", "page=-3", "sort=%00", "page=٣"])
def test_what_an_address_cannot_mean_is_ignored(query: str) -> None:
    asked = TopicsAsked.of(QueryDict(query))
    assert asked.sort == "topic" and 1 <= asked.page <= topic_list.PAGES_RANKED


def test_an_address_says_no_more_than_is_different() -> None:
    asked = TopicsAsked.of(QueryDict("q=a+b&sort=-rate_in&page=3"))
    assert asked.query() == "?q=a+b&sort=-rate_in"
    assert asked.query(page=3) == "?q=a+b&sort=-rate_in&page=3"
    assert TopicsAsked().query() == "?"


def test_what_is_known_is_listed_while_a_broker_does_not_answer(browse: Browse, world: ConsoleBroker) -> None:
    """The whole page said that the broker does not respond."""
    rows = [live_row("persistent://acme/orders/here", producers=7), unloaded_row("persistent://acme/orders/there")]
    live = NamespaceLive(sequence=1, at_ms=1, boot_epoch=1, topics=rows, totals=LiveTotals(topics=2), unreachable=["broker-2"])
    world.divert(NAMESPACES_LIVE, lambda _: live)
    page = text(browse("owner"), NAMESPACE)
    assert names(page) == ["here", "there"] and "What topics of broker-2 do is unknown:" in page
    here, there = (re.search(rf">{name}</a>.*?</tr>", page, re.DOTALL)[0] for name in ("here", "there"))  # type: ignore[index]
    assert ">7<" in here and "unknown" in there and "not loaded" not in there and ">0<" not in there
