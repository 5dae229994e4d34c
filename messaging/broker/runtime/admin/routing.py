"""Who of several brokers answers a call of the admin RPC: whoever is asked, the owner of the topic, or all who have part in it.

A broker that is asked by web, worker or command line routes the call; one that is asked by another broker answers it itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from messaging.adminrpc.base import Answer, Listing, Method
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.callers import OF_BROKERS
from messaging.adminrpc.changes import ChangeRef
from messaging.adminrpc.clients import ClientsListed
from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.messages import MessagesPublish
from messaging.adminrpc.methods import (
    CEILINGS_USED,
    CHANGES_LIST,
    CHANGES_OUTCOME,
    FEED_APPLY,
    FEED_PULL,
    MAINTENANCE_RUN,
    MESSAGES_PUBLISH,
    METHODS,
    POLICIES_PREVIEW,
    SUBSCRIPTIONS_CREATE,
    TOPICS_LIST,
    TOPICS_LOOKUP,
    TOPICS_PARTITIONS,
)
from messaging.adminrpc.policies import PolicyPreview
from messaging.adminrpc.topics import LiveAsked, NamespaceLive
from messaging.broker.runtime.admin.binding import Handler
from messaging.broker.runtime.admin.changes import OutcomeUnknown
from messaging.broker.runtime.admin.maintenance import RUN_S, SLOW_S
from messaging.broker.runtime.admin.merging import MERGES, OF_EVERY_BROKER, Merge, Outcome, maintenance
from messaging.broker.runtime.admin.messages import publish_in_parts
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.other_brokers import TIMEOUT_S, OtherBrokers
from messaging.broker.runtime.ownership.silence import GIVEN_UP_S, SILENT_S
from messaging.errors import MagnetarError, NotReady
from messaging.protocol.names import TopicName, parse_topic

_CONFIRMED_BY_ALL = (FEED_APPLY, FEED_PULL)
_READ_OF_ALL = (CEILINGS_USED, CHANGES_LIST, TOPICS_LIST)
MAINTENANCE_S = RUN_S + 2 * SLOW_S  # what a call may take at another broker, and less than its caller waits
LOOK_S, SILENT_LOOKS = 0.1, 2  # in a row, as an answer may have come while this broker was busy
HERE = ""  # in place of an RPC address: this broker

# Those that name a topic and are about metadata, which all brokers share, or about where it is.
_BY_ANYBODY = {TOPICS_PARTITIONS.name, TOPICS_LOOKUP.name} | OF_BROKERS


class Routing:
    """Of a broker that is one of several."""

    def __init__(self, broker: Broker, owners: FleetMember, others: OtherBrokers) -> None:
        self._broker = broker
        self._owners = owners
        self._others = others

    def methods(self, own: Mapping[str, Handler]) -> dict[str, Handler]:
        """`own`: how this broker answers each method."""
        return {name: self._routed(METHODS[name], handler) for name, handler in own.items()}

    def _routed(self, method: Method[Any, Any], own: Handler) -> Handler:
        if method == CHANGES_OUTCOME:
            return partial(self._outcome, own)
        if method == MAINTENANCE_RUN:
            return partial(self._maintain, own)
        if method == MESSAGES_PUBLISH:
            return partial(self._publish, own)
        if method == POLICIES_PREVIEW:
            return partial(self._preview, own)
        if issubclass(method.request, BrokerAsked):
            return partial(self._ask_broker, method, own)
        if method.name in OF_EVERY_BROKER:
            return partial(self._ask_all, method, own)
        if "topic" in method.request.__struct_fields__ and method.name not in _BY_ANYBODY:
            return partial(self._ask_owners, method, own)
        return own

    async def _ask_all(self, method: Method[Any, Any], own: Handler, request: Any) -> Answer:
        tenant = request.namespace.partition("/")[0] if hasattr(request, "namespace") else ""
        if method in _CONFIRMED_BY_ALL:  # one that has just started is asked too
            await self._owners.refresh()
        places = [HERE, *self._owners.others("rpc_url")]
        if issubclass(method.answer, Listing):
            return await self._list(method, own, request, places[1:], tenant)
        if method in _READ_OF_ALL:
            return await self._gather_read(method, own, request, places[1:], OF_EVERY_BROKER[method.name], tenant)
        answer = await self._gather(method, own, request, places, OF_EVERY_BROKER[method.name], tenant)
        if isinstance(answer, ClientsListed):
            answer.unreached += len(self._owners.absent())
        return answer

    async def _list(self, method: Method[Any, Any], own: Handler, request: Any, places: Sequence[str], tenant: str) -> Answer:
        """Whoever does not answer holds up nobody for longer than it takes to see that, and is named."""
        asked = (self._ask_while_it_answers(method, own, request, place, tenant) for place in places)
        here, *others = await asyncio.gather(self._ask(method, own, request, HERE, tenant), *asked)
        away = {place for place, outcome in zip(places, others, strict=True) if isinstance(outcome, NotReady)}
        answer = OF_EVERY_BROKER[method.name]([here, *(each for each in others if not isinstance(each, NotReady))])
        sessions = self._owners.other_sessions()
        assert isinstance(answer, Listing)
        silent = {each.broker_id for each in sessions if each.addresses.get("rpc_url") in away}
        if not (isinstance(answer, NamespaceLive) and _has_all(answer, request)):
            answer.unreachable = sorted(silent.union(self._owners.absent()))
        return answer

    async def _ask_while_it_answers(
        self, method: Method[Any, Any], own: Handler, request: Any, place: str, tenant: str, silent_s: float = SILENT_S
    ) -> Outcome:
        """Until it has answered nothing for so long: it may have begun what it was asked."""
        silence = self._others.silence
        if silence.is_silent(place, silent_s):
            return self._no_answer(place)
        asking = asyncio.get_running_loop().create_task(self._ask(method, own, request, place, tenant))
        silent = 0
        while silent < SILENT_LOOKS:
            await asyncio.wait({asking}, timeout=LOOK_S)
            if asking.done():
                return asking.result()
            silent = silent + 1 if silence.is_silent(place, silent_s) else 0
        asking.cancel()  # so that it is not done once that broker goes on, when nobody knows of it
        return self._no_answer(place, may_be_done=not (method.idempotent or getattr(request, "dry_run", False)))

    def _no_answer(self, place: str, *, may_be_done: bool = False) -> NotReady:
        """`may_be_done`: it was asked for what must not be done twice."""
        name = self._owners.name_of(place)
        if may_be_done:
            return NotReady(f"{name} does not answer: whether it was done is not known, so look before you do it again")
        return NotReady(f"{name} does not answer: try again, or see what is wrong there")

    async def _ask_other(self, method: Method[Any, Any], own: Handler, request: Any, place: str, tenant: str) -> Answer:
        """Raises its error, or `NotReady` soon after it stopped to answer anything."""
        outcome = await self._ask_while_it_answers(method, own, request, place, tenant, GIVEN_UP_S)
        if isinstance(outcome, MagnetarError):
            raise outcome
        return outcome

    async def _ask_broker(self, method: Method[Any, Any], own: Handler, request: BrokerAsked) -> Answer:
        if request.broker_id in ("", self._broker.settings.broker_id):
            return await own(request)
        session = self._owners.owners.sessions.get(request.broker_id)
        if session is None or not session.live:
            raise NotReady(f"broker {request.broker_id} is not running: start it and try again")
        place = session.addresses.get("rpc_url")
        if place is None:
            raise NotReady(f"broker {request.broker_id} is starting: try again")
        return await self._ask_other(method, own, request, place, "")

    async def _outcome(self, own: Handler, request: ChangeRef) -> Answer:
        """Of a change that any of the brokers was asked for: who asks now may speak to another one than then."""
        try:
            return await own(request)
        except OutcomeUnknown as error:
            unknown = error
        places = self._owners.others("rpc_url")
        asked = (self._others.perform(place, CHANGES_OUTCOME, request, "") for place in places)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, Answer):
                return outcome
            if not isinstance(outcome, NotReady):
                raise outcome
        raise unknown

    async def _maintain(self, own: Handler, request: MaintenanceRun) -> Answer:
        """Each broker its own topics. One that cannot be placed now comes again in the next round."""
        topics: dict[str, list[str]] = {HERE: []}
        for text in request.topics:
            try:
                topics.setdefault(await self._place(parse_topic(text)), []).append(text)
            except NotReady:
                continue

        async def run(place: str) -> Outcome:
            part = msgspec.structs.replace(request, topics=topics[place])
            return await self._ask(MAINTENANCE_RUN, own, part, place, "", MAINTENANCE_S)

        return maintenance(await asyncio.gather(*map(run, topics)))

    async def _publish(self, own: Handler, request: MessagesPublish) -> Answer:
        """To each partition where it is: one broker has them all only by chance."""
        return await publish_in_parts(self._broker, request, partial(self._ask_owners, MESSAGES_PUBLISH, own))

    async def _preview(self, own: Handler, request: PolicyPreview) -> Answer:
        """Of a topic by who serves it, of a namespace or a tenant by all: each of its own topics."""
        if request.topic:
            return await self._ask_owners(POLICIES_PREVIEW, own, request)
        tenant, others = request.tenant or request.namespace.partition("/")[0], self._owners.others("rpc_url")
        return await self._gather_read(POLICIES_PREVIEW, own, request, others, MERGES[POLICIES_PREVIEW.name], tenant)

    async def _ask_owners(self, method: Method[Any, Any], own: Handler, request: Any) -> Answer:
        if not request.topic:  # it is about a namespace
            return await own(request)
        name = parse_topic(request.topic)
        places = await self._places(name, method)
        if places == [HERE]:
            return await own(request)
        if len(places) == 1:
            return await self._ask_other(method, own, request, places[0], name.tenant)
        return await self._gather(method, own, request, places, MERGES[method.name], name.tenant)

    async def _places(self, name: TopicName, method: Method[Any, Any]) -> list[str]:
        """The addresses of those who answer, this broker's being `HERE`."""
        record = None
        if method.name == SUBSCRIPTIONS_CREATE.name and self._broker.policies.auto_creates_topics(name):
            await self._broker.partition_count(name, auto_create=True)  # which creates a partitioned topic where that is the policy
        if method.name in MERGES:
            record = await self._broker.topics.partitioned.get(name)
        if record is None:
            return [await self._place(name)]
        slices = self._broker.topics.services.loops.slices(name.tenant)
        places: dict[str, None] = {}
        for index in range(record.partitions):
            await slices.spend(1)
            places[await self._place(name.of_partition(index))] = None
        return list(places)

    async def _place(self, name: TopicName) -> str:
        elsewhere = await self._owners.where(name)
        return HERE if elsewhere is None else elsewhere.addresses["rpc_url"]

    async def _gather_read(
        self, method: Method[Any, Any], own: Handler, request: Any, places: Sequence[str], merge: Merge, tenant: str
    ) -> Answer:
        """What cannot be told without all of them: it is said soon who does not answer."""
        asked = (self._ask_while_it_answers(method, own, request, place, tenant) for place in places)
        here = self._ask(method, own, request, HERE, tenant)
        return merge(await asyncio.gather(here, *asked))

    async def _gather(
        self, method: Method[Any, Any], own: Handler, request: Any, places: Sequence[str], merge: Merge, tenant: str
    ) -> Answer:
        async def ask(place: str) -> Outcome:
            if place == HERE:
                return await self._ask(method, own, request, place, tenant)
            return await self._ask_while_it_answers(method, own, request, place, tenant, GIVEN_UP_S)

        return merge(await asyncio.gather(*map(ask, places)))

    async def _ask(
        self,
        method: Method[Any, Any],
        own: Handler,
        request: Any,
        place: str,
        tenant: str,
        timeout_s: float = TIMEOUT_S,
    ) -> Outcome:
        try:
            return await (own(request) if place == HERE else self._others.call(place, method, request, tenant, timeout_s))
        except MagnetarError as error:
            return error


def _has_all(answer: NamespaceLive, request: LiveAsked) -> bool:
    """Whether the brokers that answered have all that was asked for by name, so that nothing is missing of those that did not."""
    found = {row.topic for row in answer.topics if row.loaded}
    found |= {str(parse_topic(topic).base) for topic in found}
    return bool(request.names) and all(row.loaded for row in answer.topics) and found.issuperset(request.names)
