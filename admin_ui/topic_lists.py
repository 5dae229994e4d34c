"""The lists of a topic, one page at a time. What a topic has, and what it is ordered by, the broker tells of all of it in one call
(`topics.members`); stats it is asked for of what a page shows alone: those of 10,000 subscriptions or clients take half a second.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from django.http import Http404, QueryDict

from admin_ui import broker
from admin_ui.pages import sentence
from admin_ui.row_list import Column, RowList, list_items
from admin_ui.topic_stats import ConsumerRow, ProducerRow, TopicView, topic_view
from admin_ui.translation.texts import gettext_lazy
from messaging.adminrpc.methods import TOPICS_MEMBERS, TOPICS_PARTITIONED_STATS, TOPICS_STATS
from messaging.adminrpc.topics import SUBSCRIPTION_FIGURES, StatsAsked, TopicClient, TopicMembers, TopicMembersAsked
from messaging.errors import MagnetarError, NotFound
from messaging.protocol.names import TopicName

ABOUT_BACKLOG = gettext_lazy("In entries, of which each may hold a batch of messages; delayed ones count.")
ABOUT_UNACKED = gettext_lazy("In messages; of Exclusive and Failover subscriptions and readers they are not counted.")
ABOUT_DELIVERED = gettext_lazy("In messages, with those that were sent again, since the broker started.")
T = TypeVar("T")


class NamedFigure(NamedTuple):
    """A subscription, and what the list is ordered by; None: not known."""

    name: str
    figure: Any


def _figure(one: NamedFigure) -> Any:
    return one.figure


def _number(key: str, label: str, about: str = "") -> Column:
    return Column(key, label, value=_figure, down=True, look="number", about=about)


SUBSCRIPTION_COLUMNS = (
    Column("name", gettext_lazy("Subscription"), value=lambda one: one.name),
    Column("state", gettext_lazy("State")),
    Column("type", gettext_lazy("Type"), value=_figure),
    _number("backlog", gettext_lazy("Backlog"), ABOUT_BACKLOG),
    _number("oldest", gettext_lazy("Oldest")),
    _number("out", gettext_lazy("Out/s")),
    _number("acked", gettext_lazy("Acked/s")),
    _number("unacked", gettext_lazy("Unacked"), ABOUT_UNACKED),
    _number("delivered", gettext_lazy("Delivered"), ABOUT_DELIVERED),
    _number("expired", gettext_lazy("Expired")),
    _number("dropped", gettext_lazy("Dropped")),
    Column("dead_letters", gettext_lazy("Dead letters")),
    _number("consumers", gettext_lazy("Consumers")),
)
CLIENT_COLUMNS = (Column("name"),)


@dataclass(frozen=True)
class TopicSeen:
    """What the broker reports about a topic. `away` says why, if it does not respond: then there are no `members`, and no `view`,
    which has of subscriptions and consumers those that were chosen. `partitions` None: it is not partitioned."""

    members: TopicMembers | None
    view: TopicView | None
    away: str
    at_ms: int

    @property
    def partitions(self) -> int | None:
        return (self.members.partitions or None) if self.members is not None else None

    @property
    def state(self) -> dict[str, Any]:
        """For templates."""
        return {"stats": self.view, "away": self.away, "partitions": self.partitions, "at_ms": self.at_ms}


class ShownMembers(NamedTuple):
    """Of what there are to be stats, by name."""

    subscriptions: Iterable[str]
    consumers: Iterable[str] = ()
    producers: Iterable[str] = ()


def look_at(
    name: TopicName, figures: Sequence[str], choose: Callable[[TopicMembers], ShownMembers], subscription: str = ""
) -> TopicSeen:
    """404 if the topic does not exist. `choose`: of which of its members there are to be stats. `subscription`: members are of this
    one alone."""
    at_ms = time.time_ns() // 1_000_000
    try:
        members = members_of(name, figures, subscription)
        chosen = choose(members)
        asked = StatsAsked(
            topic=str(name),
            only_subscriptions=list(dict.fromkeys(chosen.subscriptions)) or members.subscriptions[:1],  # none would be all
            only_consumers=list(dict.fromkeys(chosen.consumers)),
            only_producers=list(dict.fromkeys(chosen.producers)),
        )
        method = TOPICS_PARTITIONED_STATS if members.partitions else TOPICS_STATS
        stats = broker.ask(lambda rpc: rpc.call(method, asked)).stats
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return TopicSeen(None, None, sentence(broker.why(error)), at_ms)
    return TopicSeen(members, topic_view(stats, members.backlogs), "", at_ms)


def first_one(members: TopicMembers) -> ShownMembers:
    """For whoever needs nothing of them."""
    return ShownMembers(members.subscriptions[:1])


def members_of(name: TopicName, figures: Sequence[str], subscription: str) -> TopicMembers:
    """Raises what the broker says."""
    asked = TopicMembersAsked(topic=str(name), figures=list(figures), subscription=subscription)
    return broker.ask(lambda rpc: rpc.call(TOPICS_MEMBERS, asked))


def named_figures(members: TopicMembers, figure: str) -> list[NamedFigure]:
    """By name."""
    values = members.figures.get(figure) or [None] * len(members.subscriptions)
    return sorted(map(NamedFigure, members.subscriptions, values), key=lambda one: one.name)


class ConsumerList:
    """A page of the consumers of a topic, or of one of its subscriptions."""

    def __init__(self, query: QueryDict) -> None:
        self._query = query
        self._listed: RowList[TopicClient] | None = None

    def choose(self, members: TopicMembers) -> list[TopicClient]:
        self._listed = list_items(self._query, members.consumers, CLIENT_COLUMNS, text=_name, name="consumers-")
        return self._listed.rows

    def rows(self, view: TopicView) -> RowList[ConsumerRow]:
        """What is gone since is left out."""
        rows = defaultdict[tuple[str, str, str], list[ConsumerRow]](list)
        for row in view.consumers:
            rows[row.name, row.address, row.subscription].append(row)
        assert self._listed is not None
        shown = [rows.pop((one.name, one.address, one.subscription), []) for one in self._listed.rows]
        return _with_rows(self._listed, [row for same in shown for row in same])


class TopicLists:
    """A page of each list of a topic, for the address of a page."""

    def __init__(self, query: QueryDict, *, persistent: bool) -> None:
        self._query = query
        self._columns = [column for column in SUBSCRIPTION_COLUMNS if column.key != "dropped" or not persistent]
        self._consumers = ConsumerList(query)
        self._subscriptions: RowList[NamedFigure] | None = None
        self._producers: RowList[TopicClient] | None = None  # None: of a partitioned topic clients are put together from the stats
        self._connected: dict[str, int] = {}

    @property
    def figures(self) -> list[str]:
        """What the list of subscriptions is ordered by, and how many consumers each has."""
        asked = self._query.get("sort", "").removeprefix("-")
        ordered = any(column.key == asked and asked in SUBSCRIPTION_FIGURES for column in self._columns)
        return [asked, "consumers"] if ordered and asked != "consumers" else ["consumers"]

    def choose(self, members: TopicMembers) -> ShownMembers:
        """What a page shows, and the subscriptions of its consumers."""
        named = named_figures(members, self.figures[0])
        self._subscriptions = list_items(self._query, named, self._columns, text=_name)
        self._connected = dict(zip(members.subscriptions, members.figures["consumers"], strict=True))
        consumers = self._consumers.choose(members)
        if not members.partitions:
            self._producers = list_items(self._query, members.producers, CLIENT_COLUMNS, text=_name, name="producers-")
        names = [one.name for one in self._subscriptions.rows]
        of_producers = [one.name for one in self._producers.rows] if self._producers is not None else []
        return ShownMembers([*names, *(one.subscription for one in consumers)], [one.name for one in consumers], of_producers)

    def rows(self, view: TopicView) -> dict[str, Any]:
        """`view`: of what was chosen. What is gone since is left out."""
        subscriptions = {row.name: replace(row, connected=self._connected.get(row.name, 0)) for row in view.subscriptions}
        assert self._subscriptions is not None
        listed = [subscriptions[one.name] for one in self._subscriptions.rows if one.name in subscriptions]
        return {
            "listed": _with_rows(self._subscriptions, listed),
            "consumers": self._consumers.rows(view),
            "producers": self._page_of_producers(view),
        }

    def _page_of_producers(self, view: TopicView) -> RowList[ProducerRow]:
        if self._producers is None:
            return list_items(self._query, view.producers, CLIENT_COLUMNS, text=_name, name="producers-")
        rows = {(row.name, row.address): row for row in view.producers}
        shown = [(one.name, one.address) for one in self._producers.rows]
        return _with_rows(self._producers, [rows[key] for key in shown if key in rows])


def _name(one: Any) -> str:
    name: str = one.name
    return name


def _with_rows(listed: RowList[Any], rows: list[T]) -> RowList[T]:
    return replace(listed, rows=rows)
