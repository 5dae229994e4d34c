"""TopicStats as the topic page shows them: states beside subscriptions, and dashes for what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from admin_ui import formatting as formatting
from admin_ui.topic_lists import TopicLists
from admin_ui.topic_stats import NO_CONSUMER, State, mark_state, topic_view
from messaging.adminrpc.topics import TopicMembers


@pytest.mark.parametrize(
    ("stats", "states"),
    [
        ({}, []),  # not known
        ({"deliveryHealth": "good"}, []),
        ({"deliveryHealth": "idle"}, [NO_CONSUMER]),
        ({"deliveryHealth": "abandoned", "problems": []}, [NO_CONSUMER]),  # for a moment
        ({"deliveryHealth": "abandoned", "problems": ["no_consumer"]}, [mark_state("no_consumer")]),
        ({"deliveryHealth": "blocked", "problems": ["blocked"]}, [mark_state("blocked")]),
        ({"problems": ["falling_behind", "blocked"]}, [mark_state("blocked"), mark_state("falling_behind")]),
        ({"problems": ["of a later release"]}, []),
    ],
)
def test_states(stats: dict[str, Any], states: list[State]) -> None:
    """The broker's verdict is shown: the console has none of its own."""
    (row,) = topic_view({"subscriptions": {"s": stats}}).subscriptions
    assert row.states == states


def test_what_the_broker_did_not_say_is_not_zero() -> None:
    view = topic_view({"publishers": [{}], "subscriptions": {"s": {"consumers": [{}]}}, "partitions": {"t-partition-0": {}}})
    (row,) = view.subscriptions
    assert [row.backlog, row.oldest_s, row.rate_out, row.ack_rate, row.unacked, row.delivered, row.expired] == [None] * 7
    assert [view.consumers[0].rate_out, view.consumers[0].permits, view.producers[0].rate_in] == [None] * 3
    assert [view.partitions[0].rate_in, view.partitions[0].storage_bytes] == [None] * 2
    for form in (formatting.count, formatting.rate, formatting.size, formatting.span):
        assert form(None) == formatting.UNKNOWN


def test_figures_of_dead_letters_are_grouped() -> None:
    (row,) = topic_view({"subscriptions": {"s": {"deadLetters": {"movedMessages": 12345, "waitingEntries": 1234}}}}).subscriptions
    assert row.dead_letters == "12,345 moved, 1,234 waiting"


@pytest.mark.parametrize(("age_s", "shown"), [(-1, None), (0, 0), (90, 90)])
def test_the_age_of_the_oldest(age_s: int, shown: int | None) -> None:
    (row,) = topic_view({"subscriptions": {"s": {"oldestBacklogMessageAgeSeconds": age_s}}}).subscriptions
    assert row.oldest_s == shown


def test_what_holds_producers_is_shown_of_the_topic_or_of_each_partition() -> None:
    assert topic_view({"publishingHeld": "full"}).publishing_held == ["full"]
    parts = {"t-partition-0": {}, "t-partition-1": {"publishingHeld": "one is full"}}
    assert topic_view({"partitions": parts}).publishing_held == ["one is full"]


def test_heads_say_whether_they_count_entries_or_messages() -> None:
    lists = TopicLists(QueryDict(), persistent=True)
    lists.choose(TopicMembers(partitions=0, subscriptions=[], figures={"consumers": []}, consumers=[], producers=[], backlogs={}))
    heads = render_to_string("admin_ui/parts/list_heads.html", lists.rows(topic_view({})))
    assert heads.count('title="In entries') == 1 and heads.count('title="In messages') == 2
