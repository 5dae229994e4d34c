"""What all brokers share: the real SQL of ownership and fences in memory, and topics and cursor logs whose writes carry fences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from messaging.protocol.bundles import position_of
from messaging.storage.ledger_store import Fence, LedgerClosed
from messaging.storage.meta_store import namespace_of
from messaging.storage.ownership import scope_of_broker
from messaging.storage.sql import tables
from messaging.storage.sql.thread import Database
from messaging.storage.sqlite.meta_store import connect
from tests.simulation.checker import Violated


class Opened(NamedTuple):
    """What a new owner reads of a topic."""

    ledger: int
    entries: int
    mark_delete: int


class SharedDatabase:
    """`acknowledged`: the cursor log of each broker, with what it acknowledged of which topic. `answered`: the highest
    acknowledgement of each topic that a client was told of."""

    def __init__(self) -> None:
        self.db: Database = connect(Path(":memory:"))
        self.now_ms = 1_000_000
        self.logs: dict[str, list[int]] = defaultdict(list)  # numbers of operations
        self.ledgers: dict[str, int] = defaultdict(int)
        self.mark_deletes: dict[str, int] = defaultdict(lambda: -1)
        self.acknowledged: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.answered: dict[str, int] = defaultdict(lambda: -1)

    def call(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """In a transaction of its own. Raises what it raises, and then nothing has changed."""
        self.db.execute("begin")
        try:
            result = run(self, *arguments)
        except BaseException:
            self.db.execute("rollback")
            raise
        self.db.execute("commit")
        return result


def checked(shared: SharedDatabase, fence: Fence) -> None:
    tables.check_fence(shared.db, fence, "")


def open_topic(shared: SharedDatabase, fence: Fence, topic: str, broker_id: str) -> Opened:
    """Seals the ledger of whoever had the topic before, and makes one."""
    checked(shared, fence)
    shared.ledgers[topic] += 1
    mark_delete = mark_delete_of(shared, topic, broker_id)
    if mark_delete < shared.answered[topic]:
        raise Violated(f"{topic} was acknowledged up to {shared.answered[topic]}, and {mark_delete} is known to its owner")
    return Opened(shared.ledgers[topic], len(shared.logs[topic]), mark_delete)


def mark_delete_of(shared: SharedDatabase, topic: str, broker_id: str) -> int:
    """As it is stored, and what the broker has acknowledged since."""
    acknowledged = [mark_delete for other, mark_delete in shared.acknowledged[broker_id] if other == topic]
    return max([shared.mark_deletes[topic], *acknowledged])


def append(shared: SharedDatabase, fence: Fence, topic: str, ledger: int, entry: int, number: int) -> None:
    checked(shared, fence)
    if shared.ledgers[topic] != ledger:
        raise LedgerClosed(f"ledger {ledger} of {topic} was sealed")
    if entry != len(shared.logs[topic]):
        raise Violated(f"entry {entry} of {topic} is written where {len(shared.logs[topic])} comes next: it has two writers")
    shared.logs[topic].append(number)


def start_broker(shared: SharedDatabase, broker_id: str) -> Fence:
    """Takes over what a broker changes by itself."""
    scope = scope_of_broker(broker_id)
    return Fence(scope, tables.raise_epoch(shared.db, scope, 0))


def acknowledge(shared: SharedDatabase, fence: Fence, broker_id: str, topic: str, mark_delete: int) -> None:
    """In the broker's log, for which bundles are nothing."""
    checked(shared, fence)
    shared.acknowledged[broker_id].append((topic, mark_delete))


def unload(shared: SharedDatabase, fence: Fence, broker_id: str, topic: str, mark_delete: int) -> None:
    """Saves the cursor; what is in the log counts no more."""
    checked(shared, fence)
    shared.mark_deletes[topic] = mark_delete
    shared.acknowledged[broker_id] = [entry for entry in shared.acknowledged[broker_id] if entry[0] != topic]


def save_the_rest(shared: SharedDatabase, fence: Fence, broker_id: str, loaded: frozenset[str]) -> None:
    """The cursors of topics that failed, and were not saved then."""
    for topic in {topic for topic, _ in shared.acknowledged[broker_id]} - loaded:
        unload(shared, fence, broker_id, topic, mark_delete_of(shared, topic, broker_id))


def recover_log(shared: SharedDatabase, fence: Fence, broker_id: str) -> None:
    """Applies it to the stored cursors of topics that are still the broker's."""
    checked(shared, fence)
    for topic, mark_delete in shared.acknowledged.pop(broker_id, []):
        if owner_of(shared, topic) == broker_id:
            shared.mark_deletes[topic] = max(shared.mark_deletes[topic], mark_delete)


def owner_of(shared: SharedDatabase, topic: str) -> str:
    """The broker whose row holds a topic, alive or not."""
    sql = "select broker_id from bundle_owner where namespace = ? and lower <= ? and upper > ?"
    position = position_of(topic)
    (broker_id,) = shared.db.execute(sql, (namespace_of(topic), position, position)).fetchone() or ("",)
    return str(broker_id)
