"""Pages of a topic with many subscriptions: what each shows and in which order, and that it asks for the stats of that alone."""

from __future__ import annotations

import re

import pytest

from admin_ui.row_list import ROWS_A_PAGE
from admin_ui.views.history import HANDLES_MAX
from admin_ui.views.why import LISTED_MAX
from messaging.adminrpc.methods import TOPICS_PARTITIONED_STATS, TOPICS_STATS
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import PLACED

TOPIC = f"{NAMESPACE}/topics/placed"
COUNT = LISTED_MAX + 5
NAMES = [f"s{number:03}" for number in range(COUNT)]


@pytest.fixture
def many(broker: ConsoleBroker, world: ConsoleBroker) -> ConsoleBroker:
    """Each has three entries that it has not acknowledged; the first has none, and the second one."""
    broker.real.add(PLACED, *NAMES)
    broker.real.publish(PLACED, b"1", b"2", b"3")
    broker.real.acknowledge(PLACED, NAMES[0], 0, 1, 2)
    broker.real.acknowledge(PLACED, NAMES[1], 0, 1)
    broker.calls.clear()
    return broker


def rows(page: str) -> list[str]:
    return re.findall(r'<a id="subscription-\d+"[^>]*>([^<]*)', page)


def stats_asked(broker: ConsoleBroker) -> list[int]:
    """Of how many subscriptions, by each call since the last time."""
    counts = [len(call.only_subscriptions) for call in broker.called(TOPICS_STATS)]
    broker.calls.clear()
    return counts


def test_a_page_of_subscriptions_asks_for_the_stats_of_those_it_shows(many: ConsoleBroker, browse: Browse) -> None:
    """They were asked for of all: half a second of a processor, and 15 MB, every two seconds, for a page of a hundred."""
    owner = browse("owner")
    page = text(owner, TOPIC)
    assert rows(page) == NAMES[:ROWS_A_PAGE] and stats_asked(many) == [ROWS_A_PAGE] and "Page 1 of 3" in page
    assert rows(text(owner, TOPIC, page="3")) == NAMES[2 * ROWS_A_PAGE :] and stats_asked(many) == [5]
    assert rows(text(owner, f"{TOPIC}/detail", sort="backlog"))[:3] == [NAMES[0], NAMES[1], NAMES[2]]
    assert rows(text(owner, TOPIC, sort="-backlog", page="3"))[-2:] == [NAMES[1], NAMES[0]]
    assert rows(text(owner, TOPIC, sort="-name"))[0] == NAMES[-1]
    many.calls.clear()
    assert rows(text(owner, TOPIC, q="S00", sort="-oldest"))[-1] == NAMES[0], "what is not known comes last"
    assert stats_asked(many) == [10]
    assert "No matching subscriptions" in text(owner, TOPIC, q="none")
    for sort in ("type", "-consumers", "-dropped", "held", "state"):
        assert len(rows(text(owner, TOPIC, sort=sort))) == ROWS_A_PAGE, sort


def test_consumers_of_other_subscriptions_than_are_shown_are_shown(many: ConsoleBroker, browse: Browse) -> None:
    many.real.connect_consumer(PLACED, NAMES[-1])
    page = text(browse("owner"), TOPIC)
    shown = page.partition('id="consumers-title"')[2]
    assert NAMES[-1] not in rows(page) and f">{NAMES[-1]}</span>" in shown and "Disconnect all" in shown
    assert stats_asked(many) == [ROWS_A_PAGE + 1]
    assert rows(text(browse("owner"), TOPIC, sort="-consumers"))[0] == NAMES[-1]


def test_clients_have_pages_of_which_alone_there_are_stats(broker: ConsoleBroker, world: ConsoleBroker, browse: Browse) -> None:
    """The page of a subscription with 4,000 consumers showed all of them: 4 MB, and 4.6 s of a processor."""
    for _ in range(ROWS_A_PAGE + 2):
        broker.real.connect_consumer(PLACED, "s")
        broker.real.connect_producer(PLACED)
    broker.calls.clear()
    for path in (f"{TOPIC}/subscriptions/s", TOPIC):
        first, second = (text(browse("owner"), path, **{"consumers-page": page, "producers-page": page}) for page in ("1", "2"))
        assert [page.count('id="disconnect-consumer-') for page in (first, second)] == [ROWS_A_PAGE, 2], path
    assert [page.count('id="disconnect-producer-') for page in (first, second)] == [ROWS_A_PAGE, 2]
    assert f'data-figure="topic_stats.subscriptions.consumers">{ROWS_A_PAGE + 2}<' in first
    asked = [[len(names or ()) for names in (call.only_consumers, call.only_producers)] for call in broker.called(TOPICS_STATS)]
    assert asked == [[ROWS_A_PAGE, 0], [2, 0], [ROWS_A_PAGE, ROWS_A_PAGE], [2, 2]]
    assert f"{ROWS_A_PAGE + 2} producers and {ROWS_A_PAGE + 2} consumers are" in text(browse("owner"), f"{TOPIC}/delete")


def test_why_asks_for_those_that_are_held_and_have_most(many: ConsoleBroker, browse: Browse) -> None:
    page = text(browse("owner"), f"{TOPIC}/why")
    assert stats_asked(many) == [LISTED_MAX] and "5 further subscriptions are not shown" in page
    assert f"/{NAMES[2]}/why" in page and f"/{NAMES[0]}/why" not in page


def test_the_timeline_asks_for_those_that_stand_farthest_back(many: ConsoleBroker, browse: Browse) -> None:
    """Of more than fifty places it was not known when they were written: whoever stood there was said to be farther on."""
    page = text(browse("owner"), f"{TOPIC}/history/timeline")
    assert stats_asked(many) == [HANDLES_MAX] and f"{COUNT - HANDLES_MAX} more stand farther on" in page
    shown = re.findall(r'<label for="handle-\d+"><a [^>]*>([^<]*)', page)
    assert shown == NAMES[2 : HANDLES_MAX + 2]


def test_a_deletion_counts_all(many: ConsoleBroker, browse: Browse) -> None:
    page = text(browse("owner"), f"{TOPIC}/delete")
    assert f"{COUNT} subscriptions" in page and stats_asked(many) == [1]


def test_partitions_have_the_backlog_of_subscriptions_that_are_not_shown(
    broker: ConsoleBroker, world: ConsoleBroker, browse: Browse
) -> None:
    topic = "persistent://acme/orders/parts"
    broker.real.add_partitioned(topic, 2, *NAMES[: ROWS_A_PAGE + 1])
    broker.real.publish(f"{topic}-partition-1", b"1", b"2")
    broker.real.acknowledge(f"{topic}-partition-1", NAMES[0], 0, 1)
    broker.calls.clear()
    page = text(browse("owner"), f"{NAMESPACE}/topics/parts", q=NAMES[0])
    assert rows(page) == [NAMES[0]]
    assert [len(call.only_subscriptions) for call in broker.called(TOPICS_PARTITIONED_STATS)] == [1]
    backlogs = re.findall(r'data-figure="topic_stats.partitions.backlog">([^<]*)', page)
    assert backlogs == ["0", "2"]
