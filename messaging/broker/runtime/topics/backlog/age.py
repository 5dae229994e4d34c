"""The age of a backlog: when the broker stored the first entry that a subscription has not acknowledged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.storage.ledger_store import Position, StoreError

REMEMBERED_MAX = 10_000  # number of positions kept, most recent last: while nobody acknowledges, nothing is read twice
READS_MAX = 50  # limit for one answer; the age of further subscriptions is unknown
UNKNOWN = -1
LOOK_COST = 8  # at one subscription, in units of `core/turns/command_costs.py`


class BacklogAges:
    def __init__(self) -> None:
        self._times: OrderedDict[Position, int] = OrderedDict()  # ledger ids are unique over all topics

    async def of(self, topic: TopicContext, slices: TurnSlices, only: Iterable[Subscription] | None = None) -> dict[str, int]:
        """Maps the key of each subscription to milliseconds since 1970, or `UNKNOWN`. `only`: of these. Those without a backlog are
        left out."""
        times: dict[str, int] = {}
        reads = 0
        for subscription in list(topic.subscriptions.table.values() if only is None else only):
            key = subscription.key
            await slices.spend(LOOK_COST)
            position = _first_unacked(subscription)
            if position is None:
                continue
            if position not in self._times:
                if reads == READS_MAX:
                    times[key] = UNKNOWN
                    continue
                reads += 1
                await self._learn(topic, position)
            times[key] = self._times.get(position, UNKNOWN)
        return times

    def known(self, topic: TopicContext) -> dict[str, int]:
        """The same without reading: what is not known by now is left out, too."""
        positions = {key: _first_unacked(subscription) for key, subscription in topic.subscriptions.table.items()}
        return {key: self._times[at] for key, at in positions.items() if at is not None and at in self._times}

    async def _learn(self, topic: TopicContext, position: Position) -> None:
        try:
            at_ms = await topic.entries.broker_time(position)
        except StoreError:  # unknown for now; a later call may find it
            return
        if at_ms:
            self._times[position] = at_ms
            while len(self._times) > REMEMBERED_MAX:
                self._times.popitem(last=False)


def _first_unacked(subscription: Subscription) -> Position | None:
    ledger_list = subscription.ledger_list
    position = ledger_list.resolve(ledger_list.next_after(subscription.cursor.mark_delete))
    return position if ledger_list.holds(position) else None
