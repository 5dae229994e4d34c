"""What a page offers to somebody is not refused to them: every kind of page is followed by its links, for members whose rights are
narrow, and no link leads to "not allowed". Members of single topics find these, and nothing of others."""

from __future__ import annotations

import re
from collections import deque

import pytest
from django.test import Client

from admin_ui.access import NOT_VISIBLE, may_open, websocket_refusal
from tenants.access import Actor, actor_of_user, platform_actor
from tenants.actions import set_member
from tenants.models import User
from tests.admin_ui.browser.crawl import PAGES, furnish, route_of
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse

LINK = re.compile(r'\bhref="(/[^"#]*)')
TOPIC = f"{NAMESPACE}/topics/placed"
STARTS = ("/now", "/tenants", "/tenants/acme", f"{TOPIC}/messages")
WHOLE = ("", "")
OTHERS = [
    ("metadata", *WHOLE),
    ("operator", *WHOLE),
    ("developer", *WHOLE),
    ("billing", *WHOLE),
    ("viewer", "orders", ""),
    ("metadata", "orders", "placed*"),
    ("operator", "", "placed*"),
]
KINDS = [
    ("viewer", *WHOLE),
    ("operator", "orders", ""),
    ("viewer", "orders", "placed*"),
    *(pytest.param(*kind, marks=pytest.mark.thorough) for kind in OTHERS),
]


def follow(client: Client, actor: Actor) -> set[str]:
    """The addresses that links lead to, one of each route. Where one of them leads to a refusal, the test fails."""
    waiting = deque(STARTS)
    seen = {route_of(start) for start in STARTS}
    pages = set()
    while waiting:
        address = waiting.popleft()
        answer = client.get(address.replace("&amp;", "&"))
        if answer.status_code != 200:
            assert address in STARTS or answer.status_code != 403, address
            continue
        pages.add(address)
        for link in dict.fromkeys(LINK.findall(answer.content.decode())):
            assert may_open(actor, link.replace("&amp;", "&")), f"{address} offers {link}, which is refused"
            route = route_of(link)
            if route in PAGES and route not in seen and not link.startswith("/docs"):
                seen.add(route)
                waiting.append(link)
    return pages


@pytest.mark.parametrize(("role", "namespace", "topics"), KINDS)
def test_no_page_offers_what_is_refused(world: ConsoleBroker, browse: Browse, role: str, namespace: str, topics: str) -> None:
    furnish(world)
    set_member(platform_actor(), "acme", "stranger", role, namespace, topics)
    pages = follow(browse("stranger"), actor_of_user(User.objects.get(username="stranger")))
    assert TOPIC in pages or role == "billing"


def test_a_member_of_single_topics_finds_them_and_no_others(world: ConsoleBroker, browse: Browse) -> None:
    world.real.add("persistent://acme/orders/placed")
    world.real.add("persistent://acme/orders/parts-of-others")
    set_member(platform_actor(), "acme", "teammate", "metadata", "orders", "placed*")
    client = browse("teammate")
    page = client.get("/tenants/acme").content.decode()
    assert f'href="{TOPIC}"' in page
    assert "parts-of-others" not in page
    assert "No namespaces" not in page
    now = client.get("/now").content.decode()
    assert "You may see no topics" not in now
    assert "You may see single topics only" in now


def test_who_may_see_no_namespace_is_not_told_that_there_is_none(world: ConsoleBroker, browse: Browse) -> None:
    set_member(platform_actor(), "acme", "teammate", "billing")
    page = browse("teammate").get("/tenants/acme").content.decode()
    assert "No namespaces yet" not in page
    assert "You may see none of this tenant" in page


def test_the_list_of_tenants_counts_what_one_may_see(world: ConsoleBroker, browse: Browse) -> None:
    set_member(platform_actor(), "acme", "teammate", "metadata", "orders", "placed*")
    for name, counts in (("teammate", ["", "", ""]), ("owner", ["1", "0", "2"])):
        page = browse(name).get("/tenants").content.decode()
        assert re.findall(r'data-figure="tenants\.[a-z]+">(\d*)<', page) == counts


def test_the_live_page_of_a_single_topic_is_open_to_who_may_read_it_alone(world: ConsoleBroker) -> None:
    set_member(platform_actor(), "acme", "teammate", "metadata", "orders", "placed*")
    user = User.objects.get(username="teammate")
    session = Client()
    session.force_login(user)
    scope = {"user": user, "session": session.session, "url_route": {"kwargs": {"tenant": "acme", "namespace": "orders"}}}

    def refusal(query: str) -> int:
        return websocket_refusal({**scope, "query_string": query.encode()}, "console:namespace_live")

    assert refusal("topic=persistent://acme/orders/placed") == 0
    assert refusal("topic=persistent://acme/orders/other") == NOT_VISIBLE
    assert refusal("topic=persistent://acme/elsewhere/placed") == NOT_VISIBLE
    assert refusal("topic=x/y") == NOT_VISIBLE
    assert refusal("") == NOT_VISIBLE
