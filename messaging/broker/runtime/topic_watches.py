"""Watches of topic lists: clients that subscribe by pattern are told which topics a namespace gained and lost.

Changes of a namespace are collected for a moment and then sent together, one update per watch, with the hash of all names that
match. That takes one listing of the namespace for all watches of it; the pause after a flush grows with what it cost. A watch whose
peer does not read keeps its changes, up to a limit. Permission is checked before each update: a peer that may no longer list the
namespace, or does not read, is disconnected, since there is no other way to end a watch; it comes back and looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic
from typing import NamedTuple, Protocol

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.memory.memory_charge import MemoryCharge
from messaging.broker.core.topics.pattern import TopicPattern
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.errors import MagnetarError, NotAllowed, NotReady
from messaging.fairness.in_thread import in_thread
from messaging.fairness.turns import FairTurns
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.watches")

WATCHES_MAX = 1_000  # of one connection
WATCH_BYTES = 1024  # memory of one, in addition to its pattern
NAME_BYTES = 400  # memory of a change that is kept
FLUSH_S = 0.1  # between changes and their updates
RETRY_S = 1.0  # where something could not be sent
COST_SHARE = 20  # a flush that took 1 s is followed by a pause of 20 s
FLUSHES_MAX = 2  # at a time, and one of each tenant
KEPT_MAX = 10_000  # changes kept for a peer that does not read
UPDATE_NAMES = 1_000  # in one frame


class Watcher(Protocol):
    """The connection of a watch."""

    out: OutboundBuffer
    memory_charge: MemoryCharge

    def refuse(self, reason: str, detail: str = "") -> None: ...


class Watch:
    """`action` and `resource`: what its peer must be allowed to do."""

    __slots__ = ("__weakref__", "changes", "pattern", "principal", "ready", "resource", "watcher", "watcher_id")
    action = Action.NAMESPACE_READ

    def __init__(self, watcher: Watcher, watcher_id: int, principal: Principal, resource: Resource, pattern: str) -> None:
        self.watcher = watcher
        self.watcher_id = watcher_id
        self.principal = principal
        self.resource = resource
        self.pattern = pattern
        self.ready = False  # the list was sent, updates may follow
        self.changes: dict[str, bool] = {}  # topics that match -> whether it exists now

    @property
    def size_bytes(self) -> int:
        return WATCH_BYTES + len(self.pattern)

    def end(self, error: MagnetarError) -> None:
        self.watcher.refuse("a watch of topics ended", error.message)


class Update(NamedTuple):
    changes: dict[str, bool]
    topics_hash: str


class TopicWatches:
    def __init__(
        self,
        names_of: Callable[[str], Awaitable[list[str]]],
        refusal_of: Callable[[Watch], MagnetarError | None],
        background: BackgroundLoops,
    ) -> None:
        self._names_of = names_of
        self._refusal_of = refusal_of
        self._background = background
        self._by_namespace: dict[str, dict[tuple[Watcher, int], Watch]] = {}
        self._by_watcher: dict[Watcher, dict[int, Watch]] = {}
        self._changed: dict[str, dict[str, bool]] = {}
        self._flushing: set[str] = set()
        self._turns = FairTurns(FLUSHES_MAX, 1)

    def list_changed(self, name: TopicName, exists: bool) -> None:
        """A topic was created, or deleted."""
        self.changed(str(name.namespace), str(name), exists)

    def open(self, watch: Watch) -> None:
        """Changes from now on are collected for it; they are sent once it is `ready`. One with the same id is replaced. Raises
        `NotAllowed`, `NotReady` if there is no room."""
        self.close(watch.watcher, watch.watcher_id)
        watches, charge = self._by_watcher.setdefault(watch.watcher, {}), watch.watcher.memory_charge
        if len(watches) >= WATCHES_MAX:
            raise NotAllowed(f"this connection has {WATCHES_MAX} watches of topics, which is the limit: close some")
        if not charge.allows(watch.size_bytes):
            raise NotReady("the tenant's clients use all memory for names and properties: close producers, consumers or watches")
        watches[watch.watcher_id] = watch
        self._by_namespace.setdefault(watch.resource.namespace, {})[watch.watcher, watch.watcher_id] = watch
        charge.change(watch.size_bytes)

    def begin(self, watch: Watch) -> None:
        """The peer has been sent the list."""
        watch.ready = True
        if watch.changes:
            self._flush_soon(watch.resource.namespace)

    def close(self, watcher: Watcher, watcher_id: int) -> None:
        """Does nothing if there is no such watch."""
        watch = self._by_watcher.get(watcher, {}).pop(watcher_id, None)
        if watch is not None:
            self._forget(watch)
            watcher.memory_charge.change(-watch.size_bytes - NAME_BYTES * len(watch.changes))

    def left(self, watcher: Watcher) -> None:
        """The connection is gone; it releases its memory as a whole."""
        for watch in self._by_watcher.pop(watcher, {}).values():
            self._forget(watch)

    def _forget(self, watch: Watch) -> None:
        namespace = watch.resource.namespace
        watches = self._by_namespace[namespace]
        del watches[watch.watcher, watch.watcher_id]
        if not watches:
            del self._by_namespace[namespace]
            self._changed.pop(namespace, None)

    def changed(self, namespace: str, topic: str, exists: bool) -> None:
        """A topic was created or deleted. Costs nothing where nobody watches."""
        if namespace in self._by_namespace:
            self._changed.setdefault(namespace, {})[topic] = exists
            self._flush_soon(namespace)

    # --- updates

    def _flush_soon(self, namespace: str) -> None:
        if namespace not in self._flushing:
            self._flushing.add(namespace)
            self._background.spawn(self._flush_all(namespace), "topic watches")

    async def _flush_all(self, namespace: str) -> None:
        pause_s = FLUSH_S
        try:
            while True:
                await asyncio.sleep(pause_s)
                async with self._turns.turn(namespace.partition("/")[0]):
                    began = monotonic()
                    more = await self._flush(namespace)
                    pause_s = max(RETRY_S if more else FLUSH_S, COST_SHARE * (monotonic() - began))
                if not more and namespace not in self._changed:
                    return
        finally:
            self._flushing.discard(namespace)

    async def _flush(self, namespace: str) -> bool:
        """Returns whether some watch has changes that could not be sent now."""
        changes = self._changed.pop(namespace, {})
        patterns = {watch.pattern for watch in self._watches(namespace)}
        try:
            names = await self._names_of(namespace) if patterns else []
        except StoreError as error:
            log.error("watches.no_names", namespace=namespace, error=str(error))
            self._changed[namespace] = changes | self._changed.get(namespace, {})
            return True
        updates = {pattern: await in_thread(_update, pattern, names, changes) for pattern in patterns}
        waiting = False
        for watch in self._watches(namespace):
            if watch.pattern in updates:  # else it was opened meanwhile
                self._collect(watch, updates[watch.pattern].changes)
                waiting = not self._send(watch, updates[watch.pattern].topics_hash) or waiting
        return waiting

    def _watches(self, namespace: str) -> list[Watch]:
        return list(self._by_namespace.get(namespace, {}).values())

    def _collect(self, watch: Watch, changes: dict[str, bool]) -> None:
        before = len(watch.changes)
        watch.changes |= changes
        watch.watcher.memory_charge.change(NAME_BYTES * (len(watch.changes) - before))

    def _send(self, watch: Watch, topics_hash: str) -> bool:
        """Returns False if its changes have to wait."""
        if not watch.changes:
            return True
        refusal = self._refusal_of(watch)
        if refusal is None and len(watch.changes) > KEPT_MAX and not watch.watcher.out.writable:
            refusal = NotReady(f"{len(watch.changes)} changes of topics were not read: connect again, and list the topics")
        if refusal is not None:
            watch.end(refusal)
            return True
        if not watch.ready or not watch.watcher.out.writable:
            return not watch.ready  # `begin` calls for the next flush
        changes, watch.changes = watch.changes, {}
        watch.watcher.memory_charge.change(-NAME_BYTES * len(changes))
        for update in _frames(watch.watcher_id, changes, topics_hash):
            watch.watcher.out.gather(update)
        return True


def _update(pattern: str, names: list[str], changes: dict[str, bool]) -> Update:
    """Runs in a thread: there may be 100,000 names."""
    matcher = TopicPattern(pattern)
    return Update({name: changes[name] for name in matcher.matching(list(changes))}, frames.topics_hash(matcher.matching(names)))


def _frames(watcher_id: int, changes: dict[str, bool], topics_hash: str) -> Iterator[bytes]:
    names = list(changes)
    for start in range(0, len(names), UPDATE_NAMES):
        some = names[start : start + UPDATE_NAMES]
        update = pb.WatchTopicUpdate(
            watcher_id=watcher_id,
            new_topics=[name for name in some if changes[name]],
            deleted_topics=[name for name in some if not changes[name]],
            topics_hash=topics_hash,
        )
        yield frames.command(pb.Command.WATCH_TOPIC_UPDATE, watch_topic_update=update)
