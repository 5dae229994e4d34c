"""A consumer of the topics of a namespace that match a pattern. What its client may not consume does not match. Topics that are
created are consumed from their beginning, a moment later; those that go leave the others alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

import structlog

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.topics.pattern import TopicPattern, namespace_of
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.detach import DetachAll
from messaging.broker.runtime.local.messages import InitialPosition, TopicListener
from messaging.broker.runtime.local.topic_consumer import BACK_OFF_MAX_S, BACK_OFF_S, LASTING, OPEN_COST
from messaging.broker.runtime.local.topics_consumer import TOPICS_MAX, OpenTopicConsumer, TopicsConsumer, TopicSource
from messaging.broker.runtime.turn_slices import TurnSlices, all_in_slices
from messaging.errors import InvalidValue, MagnetarError, NotAllowed
from messaging.fairness.in_thread import in_thread
from messaging.permissions.decision import allowed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import without_system_topics
from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.local")

FLUSH_S = 0.1  # between the creation of a topic and a look at it
RETRY_S = 1.0  # where the names could not be read
COST_SHARE = 20  # a look that took 1 s is followed by a pause of 20 s
NAMES_KEPT_MAX = 10_000  # of topics that were created since; where there are more, all are listed again
CHECK_COST = 20  # of one permission, in units of `core/turns/command_costs.py`
CHECKED_AT_ONCE = 50


class PatternConsumer(TopicsConsumer):
    """A `TopicsHandle`, and for the permission checks a session that ends with the key of its client or the namespace."""

    action = Action.SESSION  # each of its topics is checked by itself

    def __init__(
        self,
        broker: Broker,
        principal: Principal,
        pattern: str,
        subscription: str,
        sink: TopicListener,
        make: OpenTopicConsumer,
        *,
        memory: MemoryAccount,
        slices: Callable[[], TurnSlices],
        detach: DetachAll,
        without: str = "",
    ) -> None:
        super().__init__(principal.tenant, sink, make, memory=memory, slices=slices, detach=detach)
        self._broker = broker
        self.principal = principal
        self._namespace = namespace_of(pattern)
        self._pattern = pattern if "/" in pattern else f"{self._namespace}/{pattern}"
        self._without = without
        self.resource = Resource(self._namespace.tenant, str(self._namespace), "", subscription)
        self._created: dict[str, None] = {}
        self._list_again = False
        self._looking = False

    async def open_matching(self, initial: InitialPosition) -> None:
        """Raises `NotAuthorized` if its client may consume neither the namespace nor any of the topics, `NotFound` of the
        namespace, `InvalidValue` for a pattern that is not evaluated or matches too much, and what opening a topic raises."""
        broker = self._broker
        broker.topic_followers.follow(str(self._namespace), self._list_changed)
        try:
            topics = await self._listed()
            if not topics:
                await broker.authorize(self.principal, Action.CONSUME, self.resource)
            await broker.require_namespace(str(self._namespace))
            await self.open(topics, initial)
            broker.permission_checks.admit(self)
            broker.peers.sessions.add(self)  # one whose key was revoked may have no topic that says so
        except BaseException:
            self.close()
            raise
        self._look_soon()

    # --- which topics there are

    async def _listed(self) -> list[TopicName]:
        broker, namespace = self._broker, str(self._namespace)
        async with broker.peers.listings.local_room(broker.memory_limiter.egress, self.tenant, namespace):
            names = await broker.topic_names(namespace)
            broker.peers.listings.took(namespace, names)
            return await self._matching(names)

    async def _matching(self, names: list[str]) -> list[TopicName]:
        """Those that it may consume. Raises `InvalidValue`."""
        try:
            topics = await in_thread(_topics, self._pattern, names)
        except NotAllowed as error:
            raise InvalidValue(error.message) from None
        slices, permitted = self._slices(), []
        for start in range(0, len(topics), CHECKED_AT_ONCE):
            some = topics[start : start + CHECKED_AT_ONCE]
            await slices.spend(CHECK_COST * len(some))
            permitted += [topic for topic in some if self._may_consume(topic)]
            if len(permitted) > TOPICS_MAX:
                raise _too_many(self._pattern)
        return permitted

    def _may_consume(self, topic: TopicName) -> bool:
        name = str(topic)
        resource = self.resource._replace(topic=name)
        return name != self._without and allowed(self._broker.grants, self.principal, Action.CONSUME, resource)

    def _list_changed(self, name: TopicName, exists: bool) -> None:
        if exists:
            if len(self._created) >= NAMES_KEPT_MAX:
                self._list_again = True
                self._created.clear()
            self._created[str(name)] = None
            self._look_soon()
        else:
            self._created.pop(str(name), None)

    def _look_soon(self) -> None:
        if self._opened and not self._closed and not self._looking and (self._created or self._list_again):
            self._looking = True
            self._broker.background.spawn(self._look(), f"topics of {self._namespace}")

    async def _look(self) -> None:
        pause_s = FLUSH_S
        try:
            while (self._created or self._list_again) and not self._closed:
                await asyncio.sleep(pause_s)
                async with self._broker.topic_followers.turns.turn(self.tenant):
                    began = monotonic()
                    missing = await self._look_once()
                    pause_s = max(RETRY_S if self._list_again else FLUSH_S, COST_SHARE * (monotonic() - began))
                await all_in_slices(self._slices(), missing, OPEN_COST, self._open_later)
        except MagnetarError as error:
            self.end(error)
        except Exception as error:
            log.exception("consumer.no_topics", namespace=str(self._namespace))
            self.end(MagnetarError(f"new topics could not be looked at: {type(error).__name__}"))
        finally:
            self._looking = False

    async def _look_once(self) -> list[TopicSource]:
        """Those of new topics, to be opened."""
        names, self._created = list(self._created), {}
        listing, self._list_again = self._list_again, False
        try:
            topics = await (self._listed() if listing else self._matching(names))
        except StoreError as error:
            log.error("consumer.no_names", namespace=str(self._namespace), error=str(error))
            self._list_again = True
            return []
        missing = [topic for topic in topics if str(topic) not in self._sources]
        if self._closed or not missing:
            return []
        if len(self._sources) + len(missing) > TOPICS_MAX:
            raise _too_many(self._pattern)
        self._sink.topic_added()
        return [self.add_source(topic, "earliest") for topic in missing]

    # --- topics that come and go

    async def open_source(self, source: TopicSource) -> None:
        try:
            await super().open_source(source)
        except MagnetarError as error:
            if error.http_status not in (403, 404):  # else it went, or the permission did, since it was listed
                raise
            self.drop(source)

    async def _open_later(self, source: TopicSource) -> None:
        try:
            await self.open_source(source)
        except MagnetarError as error:
            if error.http_status in LASTING:
                raise
            source.back_off_s = min(max(2 * source.back_off_s, BACK_OFF_S), BACK_OFF_MAX_S)
            asyncio.get_running_loop().call_later(source.back_off_s, self._open_again, source)

    def _open_again(self, source: TopicSource) -> None:
        if not self._closed:
            self._broker.background.spawn(self._opened_or_ended(source), f"open consumer of {source.name}")

    async def _opened_or_ended(self, source: TopicSource) -> None:
        try:
            await self._open_later(source)
        except MagnetarError as error:
            self.end(error)

    def source_closed(self, source: TopicSource, error: MagnetarError | None) -> None:
        if error is None or error.http_status not in (403, 404):
            self.end(error)
            return
        self.drop(source)
        last = not self._sources and error.http_status == 403
        if last and not allowed(self._broker.grants, self.principal, Action.CONSUME, self.resource):
            self.end(error)

    def stop(self) -> None:
        """Each of its consumers is stopped by itself; `end` follows."""

    def _stop(self) -> None:
        super()._stop()
        self._broker.peers.sessions.discard(self)
        self._broker.topic_followers.unfollow(str(self._namespace), self._list_changed)


def _topics(pattern: str, names: Sequence[str]) -> list[TopicName]:
    """Without partitions: those of one topic are consumed together. Runs in a thread: there may be 100,000 names."""
    matching = TopicPattern(pattern).matching(without_system_topics(names))
    return list(dict.fromkeys(parse_topic(name).base for name in matching))


def _too_many(pattern: str) -> InvalidValue:
    return InvalidValue(f"more than {TOPICS_MAX:,} topics match the pattern {pattern[:80]!r}, which is the limit: make it narrower")
