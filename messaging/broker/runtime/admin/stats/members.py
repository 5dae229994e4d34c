"""What lists of the subscriptions and consumers of a topic are ordered and counted by: of each only its name and a figure or two,
so that a page of a list makes the stats of what it shows alone.

Figures mean what the stats say of them, also over partitions, where `MemberSums` puts them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple

from messaging.adminrpc.topics import TopicClient, TopicMembers
from messaging.broker.core.diagnosis.delivery_health import judge_delivery
from messaging.broker.core.diagnosis.explain import Reason
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES
from messaging.broker.runtime.admin.stats.internal_stats import named_subscriptions, shown_subscriptions
from messaging.broker.runtime.metering.totals import max_backlog
from messaging.broker.runtime.problems.topic_signs import is_calm
from messaging.broker.runtime.problems.watch import ProblemWatch
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.broker.runtime.turn_slices import TurnSlices

NAME_COST, CLIENT_COST, JUDGE_COST = 4, 2, 60  # in units of `core/turns/command_costs.py`
CONSUMERS = "consumers"  # the figure that is counted once all partitions are there: a client has one on each of them
_CALM = (Reason.DELIVERING, Reason.NOTHING)


class MemberContext(NamedTuple):
    """`oldest_ms`: see `BacklogAges.of`; empty where nobody asked for ages."""

    topic: Topic
    now_ms: int
    oldest_ms: Mapping[str, int]
    watch: ProblemWatch


Figure = Callable[[MemberContext, Subscription], Any]  # None: not known


def _oldest_s(context: MemberContext, subscription: Subscription) -> int | None:
    at_ms = context.oldest_ms.get(subscription.key, -1)
    return None if at_ms < 0 else max(0, context.now_ms - at_ms) // 1000


def _behind(context: MemberContext, subscription: Subscription) -> int:
    """Without reading when those entries were stored: in one topic whoever has more of them stands at an older one."""
    ledger_list = subscription.ledger_list
    return ledger_list.entries - ledger_list.count_up_to(subscription.cursor.mark_delete)


def _rates_out(context: MemberContext, subscription: Subscription) -> float:
    return (context.topic.rates or QUIET).members.of_subscription(subscription).messages_out


def _rates_acknowledged(context: MemberContext, subscription: Subscription) -> float:
    members = (context.topic.rates or QUIET).members
    return sum(members.of_consumer(consumer).messages_acknowledged for consumer in subscription.consumers)


def _held(context: MemberContext, subscription: Subscription) -> bool:
    """Whether anything is to be said of why nothing arrives: that nobody is connected, what is in the way, or what is wrong."""
    if not subscription.consumers:
        return True
    if is_calm(subscription):
        return False
    state = context.topic.consumers.delivery_state(subscription)
    verdict = judge_delivery(subscription, state)
    return verdict.finding.reason not in _CALM or bool(context.watch.of_subscription(context.topic, subscription, state, verdict))


FIGURES: Mapping[str, Figure] = {
    "type": lambda context, one: TYPE_NAMES[one.kind] if one.typed else "",
    "backlog": lambda context, one: one.backlog_entries,
    "oldest": _oldest_s,
    "behind": _behind,
    "out": _rates_out,
    "acked": _rates_acknowledged,
    "unacked": lambda context, one: one.unacked_messages,
    "delivered": lambda context, one: one.messages_out,
    "expired": lambda context, one: one.entries_expired,
    "dropped": lambda context, one: None if context.topic.keeps_messages else one.messages_dropped,
    "held": _held,
}
_RULES: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": lambda this, other: this or other,
    "oldest": max,
    "behind": max,
    "held": max,
}  # the others add up


class MemberSums:
    """Of the partitions of a topic, or of a topic without any."""

    def __init__(self, figures: Sequence[str]) -> None:
        self._figures = list(dict.fromkeys(figures))
        self._places: dict[str, int] = {}  # of each subscription in the columns
        self._columns: list[list[Any]] = [[] for _ in self._figures]
        self._consumers: dict[tuple[str, str, str], int | None] = {}  # the version of its schema, by name, address and subscription
        self._producers: dict[tuple[str, str, str], int | None] = {}
        self._backlogs: dict[str, int] = {}

    async def look(self, context: MemberContext, slices: TurnSlices, only: str = "") -> None:
        """Adds those of a topic, in slices of turns; `only`: one subscription. Those that begin or end meanwhile may be missing."""
        topic, asked = context.topic, [FIGURES.get(figure, _counted_later) for figure in self._figures]
        cost = NAME_COST * (1 + len(asked)) + (JUDGE_COST if "held" in self._figures else 0)
        self._backlogs[topic.text] = max_backlog(topic)
        for producer in list(topic.producers) if not only else ():
            await slices.spend(CLIENT_COST)
            _add_client(self._producers, (producer.name, producer.client.address, ""), producer.schema_version)
        for name, subscription in list(named_subscriptions(topic, [only]) if only else shown_subscriptions(topic)):
            await slices.spend(cost + CLIENT_COST * len(subscription.consumers))
            self._add(name, [figure(context, subscription) for figure in asked])
            for consumer in list(subscription.consumers):
                _add_client(self._consumers, (consumer.name, consumer.client.address, name), consumer.schema_version)

    def add(self, part: TopicMembers) -> None:
        """Adds what another broker told of its partitions."""
        for name, *values in zip(part.subscriptions, *(part.figures[figure] for figure in self._figures), strict=True):
            self._add(name, values)
        for clients, told in ((self._consumers, part.consumers), (self._producers, part.producers)):
            for one in told:
                _add_client(clients, (one.name, one.address, one.subscription), one.schema_version)
        self._backlogs |= part.backlogs

    def total(self, partitions: int) -> TopicMembers:
        figures = dict(zip(self._figures, self._columns, strict=True))
        if CONSUMERS in figures:
            counts = Counter(subscription for _, _, subscription in self._consumers)
            figures[CONSUMERS] = [counts[name] for name in self._places]
        return TopicMembers(
            partitions=partitions,
            subscriptions=list(self._places),
            figures=figures,
            consumers=[TopicClient(*key, version) for key, version in self._consumers.items()],
            producers=[TopicClient(*key, version) for key, version in self._producers.items()],
            backlogs=self._backlogs,
        )

    def _add(self, name: str, values: Sequence[Any]) -> None:
        place = self._places.setdefault(name, len(self._places))
        for figure, column, value in zip(self._figures, self._columns, values, strict=True):
            if place == len(column):
                column.append(value)
            elif value is not None:
                column[place] = value if column[place] is None else _RULES.get(figure, add)(column[place], value)


def _add_client(clients: dict[tuple[str, str, str], int | None], key: tuple[str, str, str], version: int | None) -> None:
    before = clients.get(key)
    clients[key] = before if version is None else version if before is None else max(before, version)


def _counted_later(context: MemberContext, subscription: Subscription) -> int:
    return 0
