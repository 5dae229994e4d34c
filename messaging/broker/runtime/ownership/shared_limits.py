"""Limits of tenants over all brokers of a fleet: each tells the others once a second what it has, and divides rates with them.

What is connected at others counts beside what is connected here. Of a rate each broker has a part, which follows what its senders
want (`core/limits/rate_shares.py`). What a broker said is forgotten after a few seconds: then it is away. One that does not answer
keeps none of the others from hearing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import structlog

from messaging.adminrpc.methods import USE_OPEN_BYTES, USE_TELL
from messaging.adminrpc.news import OpenBytesAsked, UseTold
from messaging.background import BackgroundLoops
from messaging.broker.core.limits.rate_shares import RateDemand, parts
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.telling import Telling
from messaging.broker.runtime.peers import Peers
from messaging.broker.runtime.rate_limits import SharedLimits
from messaging.broker.runtime.topics.services import Limits
from messaging.errors import MagnetarError

log = structlog.get_logger("broker.limits")

TELL_S = 1.0
FORGOTTEN_S = 5.0
TOLD_MAX = 10_000  # of each kind, those with the most

Demands = Mapping[str, RateDemand]


class FleetLimits:
    """`others`: for what is told alone, so that nothing else keeps it waiting; `asked`: for what is asked."""

    def __init__(
        self,
        broker_id: str,
        owners: FleetMember,
        others: OtherBrokers,
        asked: OtherBrokers,
        background: BackgroundLoops,
        peers: Peers,
        limits: Limits,
        now_s: Callable[[], float],
    ) -> None:
        self._broker_id = broker_id
        self._owners = owners
        self._asked = asked
        self._telling = Telling(owners, others, background, USE_TELL)
        self._peers = peers
        self._limits = limits
        self.now_s = now_s
        self._told: dict[str, tuple[float, UseTold]] = {}  # by broker, and when
        self._at_s = now_s()
        self._own: tuple[Demands, Demands] = {}, {}

    async def tell(self, wait_s: float = TELL_S) -> None:
        """Once in `TELL_S`; waits so long for the answers. Who has not answered is told nothing more until then."""
        passed_s, self._at_s = max(0.001, self.now_s() - self._at_s), self.now_s()
        rates = self._limits.rate_limits
        published, dispatched = self._own = rates.publish.demands(passed_s), rates.dispatch.demands(passed_s)
        self._apply()
        told = UseTold(
            broker_id=self._broker_id,
            producers=_most(self._limits.producers.here()),
            consumers=_most(self._limits.consumers.here()),
            connections=_most(self._peers.shares.by_tenant),
            appended=_most(self._limits.stored_bytes.appended()),
            published={key: (demand.used, demand.waits) for key, demand in _most_wanted(published)},
            dispatched={key: (demand.used, demand.waits) for key, demand in _most_wanted(dispatched)},
        )
        self._telling.tell(told)
        await self._telling.wait(wait_s)

    def hear(self, told: UseTold) -> None:
        """What another broker has."""
        self._told[told.broker_id] = self.now_s(), told
        self._limits.stored_bytes.hear(told.broker_id, told.appended)
        self._apply()

    async def open_bytes_elsewhere(self, tenant: str) -> int:
        """What a tenant has in ledgers that other brokers write to. One that is away counts for nothing: nothing comes in there."""
        asked = (self._open_bytes_at(rpc_url, tenant) for rpc_url in self._owners.others("rpc_url"))
        return sum(await asyncio.gather(*asked))

    async def _open_bytes_at(self, rpc_url: str, tenant: str) -> int:
        try:
            return (await self._asked.call(rpc_url, USE_OPEN_BYTES, OpenBytesAsked(tenant=tenant), tenant)).open_bytes
        except MagnetarError as error:
            log.warning("open_bytes.unknown", rpc_url=rpc_url, tenant=tenant, error=error.message)
            return 0

    def _apply(self) -> None:
        oldest_s = self.now_s() - FORGOTTEN_S
        self._told = {broker_id: (at_s, told) for broker_id, (at_s, told) in self._told.items() if at_s >= oldest_s}
        heard = [told for _, told in self._told.values()]
        self._limits.producers.elsewhere = _sum(told.producers for told in heard)
        self._limits.consumers.elsewhere = _sum(told.consumers for told in heard)
        self._peers.shares.elsewhere = _sum(told.connections for told in heard)
        published, dispatched = self._own
        _divide(self._limits.rate_limits.publish, published, [told.published for told in heard])
        _divide(self._limits.rate_limits.dispatch, dispatched, [told.dispatched for told in heard])


def _divide(limits: SharedLimits, own: Demands, others: list[dict[str, tuple[float, bool]]]) -> None:
    divided = {}
    for key in {*own, *(key for other in others for key in other)}:
        demands = [own.get(key, RateDemand(0.0, False)), *(RateDemand(*other[key]) for other in others if key in other)]
        divided[key] = parts(demands)[0]
    limits.divide(divided)


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(counts) if len(counts) <= TOLD_MAX else dict(Counter(counts).most_common(TOLD_MAX))


def _most_wanted(demands: Demands) -> Iterable[tuple[str, RateDemand]]:
    if len(demands) <= TOLD_MAX:
        return demands.items()
    return heapq.nlargest(TOLD_MAX, demands.items(), key=lambda item: (item[1].waits, item[1].used))
