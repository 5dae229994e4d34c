"""The database that all brokers share: the real SQL of ownership and fences in memory, and topics whose writes carry fences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from messaging.storage.ledger_store import Fence, LedgerClosed
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
    """`answered`: the highest acknowledgement of each topic that a client was told of."""

    def __init__(self) -> None:
        self.db: Database = connect(Path(":memory:"))
        self.now_ms = 1_000_000
        self.logs: dict[str, list[int]] = defaultdict(list)  # numbers of operations
        self.ledgers: dict[str, int] = defaultdict(int)
        self.mark_deletes: dict[str, int] = defaultdict(lambda: -1)
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


def open_topic(shared: SharedDatabase, fence: Fence, topic: str) -> Opened:
    """Seals the ledger of whoever had the topic before, and makes one."""
    checked(shared, fence)
    shared.ledgers[topic] += 1
    if shared.mark_deletes[topic] < shared.answered[topic]:
        raise Violated(f"{topic} was acknowledged up to {shared.answered[topic]}, and {shared.mark_deletes[topic]} is stored")
    return Opened(shared.ledgers[topic], len(shared.logs[topic]), shared.mark_deletes[topic])


def append(shared: SharedDatabase, fence: Fence, topic: str, ledger: int, entry: int, number: int) -> None:
    checked(shared, fence)
    if shared.ledgers[topic] != ledger:
        raise LedgerClosed(f"ledger {ledger} of {topic} was sealed")
    if entry != len(shared.logs[topic]):
        raise Violated(f"entry {entry} of {topic} is written where {len(shared.logs[topic])} comes next: it has two writers")
    shared.logs[topic].append(number)


def save_cursor(shared: SharedDatabase, fence: Fence, topic: str, mark_delete: int) -> None:
    checked(shared, fence)
    shared.mark_deletes[topic] = mark_delete
