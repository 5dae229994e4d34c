"""A broker of the fleet: the real decisions, with a connection to the database that may be slow or cut off.

What it does is written as generators: each `yield` is a call of the database, which answers, fails or is never answered, or `rest`
and the time until which nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

from messaging.broker.core.ownership.lease import Lease
from messaging.broker.core.ownership.lookup import Answer, Here, NotNow, answer
from messaging.broker.core.ownership.owner_map import OwnerMap
from messaging.broker.core.ownership.ranges import range_of
from messaging.broker.runtime.ownership.bundle_moves import NOTICE_S
from messaging.broker.runtime.topics.subscriptions.acknowledgements import AcknowledgedTopic, Acknowledgements
from messaging.protocol.bundles import Boundaries, bundle_of, position_of
from messaging.storage.ledger_store import Fence, Fenced, LedgerClosed, Unavailable
from messaging.storage.meta_store import namespace_of
from messaging.storage.ownership import (
    SERVES,
    BundleRefused,
    NamespaceBundle,
    NotRecovered,
    OwnershipChanges,
    OwnershipRow,
    SessionConflict,
    SessionLost,
)
from messaging.storage.sql import ownership
from tests.simulation.checker import Violated
from tests.simulation.ownership.database import (
    Opened,
    SharedDatabase,
    acknowledge,
    append,
    open_topic,
    recover_log,
    save_the_rest,
    start_broker,
    unload,
)

Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Task: TypeAlias = Generator[Call, Any, None]
PAGE_ROWS = 3  # few, so that rows change between two pages
REFUSED = (Fenced, LedgerClosed, Unavailable, SessionLost, BundleRefused, SessionConflict, NotRecovered)
ADDRESSES = {SERVES: "pulsar://somewhere"}


class WaitingLookup(NamedTuple):
    """`version`: of what the broker knew when it looked last, at `looked_s`."""

    life: BrokerLife
    broker_id: str
    sent: bool
    since_s: float
    looked_s: float
    version: int


@dataclass
class Operation:
    """What a client wants: an entry appended, or everything up to one acknowledged. It tries until it is answered."""

    number: int
    topic: str
    invoked: int  # the step
    mark_delete: int = -1  # -1: append
    answered: int = 0  # the step; 0: not yet
    entry: int = -1  # where it was appended, as the client was told
    broker: str = ""  # where to ask next; "": anywhere
    owner: str = ""  # where to open the topic, as it was told; "": it is looked up
    waits: WaitingLookup | None = None  # at a broker that has not answered its look-up
    sent: bool = False  # by another broker
    under_way: object = None  # the broker's life that works at it


class AttachedConsumer:
    """A consumer of a loaded topic: it sends acknowledgements until it is told that the topic is elsewhere. What becomes of them is
    decided by the real code; topic, subscription and what stores their changes are this."""

    def __init__(self) -> None:
        self.closed: object = None  # why the topic is closed
        self.changes: list[bytes] = []
        self.services = self.cursor_changes = self.subscriptions = self
        self._acknowledgements = Acknowledgements(cast(AcknowledgedTopic, self))

    def acknowledge_at_broker(self, mark_delete: int) -> bool:
        """Whether the broker takes it, and is to store it."""
        self.changes.clear()
        self._acknowledgements.acknowledge(cast(Any, self), cast(Any, self), 0, [mark_delete])
        return bool(self.changes)

    def clock_ms(self) -> int:
        return 0

    def acknowledge(self, consumer: object, ledger_id: int, entries: list[int], now_ms: int) -> bytes:
        return b"%d" % entries[0]

    def finish(self, subscription: object, delta: bytes) -> None:
        self.changes.append(delta)


@dataclass
class Loaded:
    row: OwnershipRow
    ledger: int
    next_entry: int
    mark_delete: int
    consumer: AttachedConsumer = field(default_factory=AttachedConsumer)


class BrokerLife:
    """One process of a broker, from its start to its end. `clock_s` never goes back, and may run at a rate of its own."""

    def __init__(self, broker_id: str, clock_s: Callable[[], float], boundaries: dict[str, Boundaries]) -> None:
        self.broker_id = broker_id
        self.clock_s = clock_s
        self.boundaries = boundaries  # as it last heard
        self.owners = OwnerMap()
        self.session = 0
        self.fence = Fence("", 0)  # of what it changes by itself
        self.lost = False  # others took it for gone: it ends
        self.lease: Lease | None = None
        self.loaded: dict[str, Loaded] = {}
        self.leaving: set[NamespaceBundle] = set()  # bundles whose moves are announced, and which are served until they close
        self.closing: dict[str, Loaded] = {}  # topics that move: consumers are attached until it is known where to
        self.busy: set[object] = set()  # what it does once at a time
        self.paused = False
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def serves(self) -> bool:
        return self.lease is not None and self.lease.may_serve(self.clock_s())

    def bundle_of(self, topic: str) -> NamespaceBundle:
        namespace = namespace_of(topic)
        return NamespaceBundle(namespace, *bundle_of(self.boundaries[namespace], topic))

    def look_up(self, topic: str, *, sent: bool) -> Answer:
        if not self.serves:
            return NotNow("it has no session")
        bundle = self.bundle_of(topic)
        return answer(self.owners, self.broker_id, self.session, bundle, position_of(topic), sent=sent)

    def opens(self, topic: str) -> OwnershipRow | None:
        """Under which row, where a client was told to come here. None: it is to look it up again."""
        row = self.owners.row_at(*_place(topic))
        mine = row is not None and (row.broker_id, row.session) == (self.broker_id, self.session)
        if self.serves and row is not None and mine and row.state == "draining":
            return row if row.bundle in self.leaving else None
        answered = self.look_up(topic, sent=True)
        return answered.row if isinstance(answered, Here) else None

    # --- its session

    def start(self, *, replace: bool) -> Task:
        began_s = self.clock_s()
        try:
            self.session = yield _timed(ownership.open_session, self.broker_id, {}, replace)
        except SessionConflict:
            self.count("sessions refused")
            return
        self.fence = yield (start_broker, (self.broker_id,))
        yield (recover_log, (self.fence, self.broker_id))
        yield _timed(ownership.serve, self.broker_id, self.session, ADDRESSES)
        yield from self.poll()
        self.lease = Lease(began_s)

    def renew(self) -> Task:
        began_s = self.clock_s()
        try:
            yield _timed(ownership.renew_session, self.broker_id, self.session)
        except SessionLost:
            self.lease, self.lost = None, True
            self.count("sessions lost")
            return
        except Unavailable:
            if self.lease is not None:
                self.lease.failed()
            raise
        if self.lease is not None:
            self.lease.renewed(began_s, self.clock_s())

    def poll(self) -> Task:
        """Page by page, while others go on."""
        changes = OwnershipChanges([], [], self.owners.change, more=True)
        while changes.more:
            changes = yield _timed(ownership.ownership_changes, changes.change, PAGE_ROWS)
            self.owners.apply(changes)
            self.count("pages")

    # --- its bundles

    def acquire(self, bundle: NamespaceBundle) -> Task:
        try:
            self.owners.put((yield _timed(ownership.acquire_bundle, bundle, self.broker_id, self.session, False)))
            self.count("acquired")
        except BundleRefused as refused:
            self.owners.put(refused.row)
            self.count("refused")
            yield from self.poll()
        except NotRecovered as left:
            other = self.owners.sessions.get(left.row.broker_id)
            closed = other is None or other.closed
            if not closed and (self.lease is None or not self.lease.may_end_others(self.clock_s())):
                self.count("left alone")
                return
            yield from self.end_session(left.row.broker_id, left.row.session)

    def end_session(self, broker_id: str, session: int, *, gone: bool = False) -> Task:
        """Of a broker whose lease has ended, or that seems to be `gone`."""
        ended = yield _timed(ownership.fence_session, broker_id, session, gone)
        yield (recover_log, (ended.fence, broker_id))
        yield _plain(ownership.recovered, ended, "")
        self.count("recovered")
        yield from self.poll()

    def drain(self, row: OwnershipRow) -> Generator[Call, Any, OwnershipRow]:
        self.leaving.add(row.bundle)
        try:
            drained: OwnershipRow = yield _plain(ownership.drain_bundle, row)
            self.owners.put(drained)
            yield rest, (self.clock_s() + NOTICE_S,)
        finally:
            self.leaving.discard(row.bundle)
        while self.opening(row.bundle):
            yield rest, (self.clock_s(),)
        for topic in [topic for topic, loaded in self.loaded.items() if loaded.row.bundle == row.bundle]:
            loaded = self.closing[topic] = self.loaded.pop(topic)
            loaded.consumer.closed = "it moves"
            yield (unload, (self.fence, self.broker_id, topic, loaded.mark_delete))
        yield (save_the_rest, (self.fence, self.broker_id, frozenset({*self.loaded, *self.closing})))
        if left := [topic for topic in (*self.loaded, *self.busy_opening()) if _holds(row.bundle, topic)]:
            raise Violated(f"{left[0]} is open at {self.broker_id}, which has closed all topics of {row.bundle} to give it away")
        return drained

    def busy_opening(self) -> list[str]:
        return [key[1] for key in self.busy if isinstance(key, tuple) and key[0] == "open"]

    def opening(self, bundle: NamespaceBundle) -> list[str]:
        """The topics of it that are being opened."""
        return [topic for topic in self.busy_opening() if _holds(bundle, topic)]

    def move(self, row: OwnershipRow, task: Task) -> Task:
        """What is drained in it, and given away; however it ends, consumers are told to look up."""
        try:
            yield from task
        finally:
            for topic in [topic for topic, loaded in self.closing.items() if loaded.row.bundle == row.bundle]:
                del self.closing[topic]

    def hand_over(self, row: OwnershipRow, broker_id: str) -> Task:
        drained = yield from self.drain(row)
        self.owners.put((yield _timed(ownership.hand_over_bundle, drained, broker_id)))
        self.count("handed over")

    def release(self, row: OwnershipRow) -> Task:
        yield _plain(ownership.release_bundle, (yield from self.drain(row)))
        self.count("released")
        yield from self.poll()

    def split(self, row: OwnershipRow, cut: int) -> Task:
        drained = yield from self.drain(row)
        for part in (yield _plain(ownership.split_bundle, drained, [cut])):
            self.owners.put(part)
            self.owners.put((yield _timed(ownership.hand_over_bundle, part, self.broker_id)))
        self.count("split")

    # --- its topics

    def serve(self, operation: Operation, row: OwnershipRow, step: Callable[[], int]) -> Task:
        topic = operation.topic
        loaded = self.loaded.get(topic)
        if loaded is None or loaded.row.fence != row.fence:
            if ("open", topic) in self.busy:
                return
            self.busy.add(("open", topic))
            try:
                opened: Opened = yield (open_topic, (row.fence, topic, self.broker_id))
            finally:
                self.busy.discard(("open", topic))
            current = self.owners.row_at(*_place(topic))
            if current is None or current.fence != row.fence:
                raise Fenced(f"{row.bundle} was given away while {topic} was opened")
            loaded = self.loaded[topic] = Loaded(row, *opened)
        try:
            if operation.mark_delete < 0:
                entry, loaded.next_entry = loaded.next_entry, loaded.next_entry + 1
                yield (append, (row.fence, topic, loaded.ledger, entry, operation.number))
                operation.entry = entry
            elif not (yield from self._take(operation, loaded)):
                return
        except REFUSED:
            if self.loaded.get(topic) is loaded:
                del self.loaded[topic]
            raise
        operation.answered = step()

    def attached(self, topic: str) -> Loaded | None:
        """Where a consumer is that has looked up before: nothing is asked of this broker again but what it acknowledges."""
        return self.closing.get(topic) or self.loaded.get(topic)

    def serve_attached(self, operation: Operation, step: Callable[[], int]) -> Task:
        loaded = self.attached(operation.topic)
        if loaded is not None and (yield from self._take(operation, loaded)):
            self.count("acknowledged where it was")
            operation.answered = step()

    def _take(self, operation: Operation, loaded: Loaded) -> Generator[Call, Any, bool]:
        """Whether the acknowledgement was stored; else it has no answer."""
        if not loaded.consumer.acknowledge_at_broker(operation.mark_delete):
            self.count("left without answer")
            return False
        loaded.mark_delete = max(loaded.mark_delete, operation.mark_delete)
        yield (acknowledge, (self.fence, self.broker_id, operation.topic, loaded.mark_delete))
        return True


def rest(shared: SharedDatabase, until_s: float) -> None:
    """In place of a call: the broker does nothing until then, by its clock."""


def _holds(bundle: NamespaceBundle, topic: str) -> bool:
    return namespace_of(topic) == bundle.namespace and range_of(bundle).holds(position_of(topic))


def _place(topic: str) -> tuple[str, int]:
    return namespace_of(topic), position_of(topic)


def _timed(run: Callable[..., Any], *arguments: Any) -> Call:
    def timed(shared: SharedDatabase) -> Any:
        return run(shared.db, shared.now_ms, *arguments)

    return timed, ()


def _plain(run: Callable[..., Any], *arguments: Any) -> Call:
    return (lambda shared: run(shared.db, *arguments)), ()
