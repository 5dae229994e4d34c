"""What is known of each entry without asking the subscription: who sent it, who holds it, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position


class Fate(StrEnum):
    """Why an entry is not in the backlog any more."""

    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    EVICTED = "evicted"
    DEAD_LETTERED = "dead-lettered"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Entry:
    """`message` numbers the chunked message that it is a part of, 0 for none."""

    position: Position
    block: EntryBlock
    producer: str
    number: int  # in the order in which its producer sent
    key: str
    size: int  # messages in it
    stored_ms: int
    due_ms: int
    message: int


@dataclass(slots=True)
class Stored:
    """A change of the cursor as the cursor log has it, and what takes it back in the model."""

    deltas: list[bytes]
    before: dict[Position, tuple[Fate | None, int | None]] = field(default_factory=dict)


class Model:
    def __init__(self) -> None:
        self.entries: dict[Position, Entry] = {}  # that exist, in order
        self.open: dict[Position, Entry] = {}  # of those, the backlog, in order
        self.fates: dict[Position, Fate] = {}  # of the others
        self.left: dict[Position, int] = {}  # messages not acknowledged of partly acknowledged batches, as bits
        self.messages: dict[int, tuple[int, list[Position]]] = {}  # chunked messages: chunks of each, and those stored
        self.dropped: Counter[Fate] = Counter()  # entries of ledgers that are gone
        self.sent = 0
        self.with_whom: dict[Position, Consumer] = {}  # delivered, not acknowledged, not given back
        self.came: dict[int, tuple[Consumer, set[Position]]] = {}  # of chunked messages: the chunks that one consumer was sent last
        self.asked_again: dict[Position, int] = {}
        self.reached: Position | None = None  # single reader: the last entry since reading began anew
        self.numbers: dict[str, int] = {}  # and the last one of each producer since then
        self.target: Counter[Position] = Counter()  # dead letters, as long as they are not sought back

    def stored(self, entry: Entry) -> None:
        self.entries[entry.position] = self.open[entry.position] = entry
        self.sent += 1

    def settle(self, positions: Iterable[Position], fate: Fate, stored: Stored) -> None:
        """These leave the backlog."""
        for position in positions:
            if position in self.open:
                stored.before.setdefault(position, (None, self.left.pop(position, None)))
                del self.open[position]
                self.fates[position] = fate
                self.with_whom.pop(position, None)
                self.asked_again.pop(position, None)
                message = self.entries[position].message
                if message in self.came and not any(position in self.open for position in self.came[message][1]):
                    del self.came[message]

    def settle_part(self, position: Position, left: int, stored: Stored) -> None:
        if position in self.open:
            stored.before.setdefault(position, (None, self.left.get(position)))
            self.left[position] = left

    def seek(self, to: Position, stored: Stored) -> None:
        for position in self.entries:
            stored.before.setdefault(position, (self.fates.get(position), self.left.pop(position, None)))
            if position > to:
                self.fates.pop(position, None)
                self.target.pop(position, None)
            else:
                self.fates.setdefault(position, Fate.SKIPPED)
        self._find_open()
        self.asked_again.clear()
        self.forget_holders()

    def take_back(self, stored: Stored) -> None:
        """A crash lost this."""
        for position, (fate, left) in stored.before.items():
            if position not in self.entries:
                continue  # its ledger is gone: what became of it there counts
            self.fates.pop(position, None)
            self.left.pop(position, None)
            if fate is not None:
                self.fates[position] = fate
            elif left is not None:
                self.left[position] = left
        self._find_open()

    def _find_open(self) -> None:
        self.open = {position: entry for position, entry in self.entries.items() if position not in self.fates}

    def forget_holders(self) -> None:
        self.with_whom.clear()
        self.came.clear()
        self.read_anew()

    def read_anew(self) -> None:
        """A single reader begins again after the mark-delete position."""
        self.reached = None
        self.numbers.clear()

    def drop(self, ledger_id: int) -> None:
        """Retention took a ledger of which everything is settled."""
        for position in [position for position in self.entries if position.ledger_id == ledger_id]:
            message = self.entries.pop(position).message
            if message in self.messages and not any(position in self.entries for position in self.messages[message][1]):
                del self.messages[message]
                self.came.pop(message, None)
            self.dropped[self.fates.pop(position)] += 1

    def delivered(self, entry: Entry, consumer: Consumer) -> None:
        self.with_whom[entry.position] = consumer
        if entry.message:
            whom, chunks = self.came.get(entry.message, (consumer, set()))
            self.came[entry.message] = consumer, (chunks if whom is consumer else set()) | {entry.position}

    def ask_again(self, positions: Iterable[Position], consumer: Consumer) -> None:
        """It gives back what it holds of these. Nobody can reject a chunked message that did not come whole."""
        given_back = [position for position in positions if self.with_whom.get(position) is consumer]
        messages = {self.entries[position].message for position in given_back} - {0}
        parts = {message for message in messages if len(self.came[message][1]) < self.messages[message][0]}
        for position in given_back:
            del self.with_whom[position]
            if self.entries[position].message not in parts:
                self.asked_again[position] = self.asked_again.get(position, 0) + 1
        for message in messages:
            del self.came[message]

    def held_by(self, consumer: Consumer) -> list[Position]:
        return [position for position, whom in self.with_whom.items() if whom is consumer and position in self.open]

    def unacked_in(self, entry: Entry) -> int:
        left = self.left.get(entry.position)
        return entry.size if left is None else left.bit_count()

    def is_whole(self, message: int) -> bool:
        """Whether a consumer that was sent all of this chunked message can use it."""
        chunks, positions = self.messages.get(message, (1, []))
        return len(positions) == chunks and all(position in self.open for position in positions)

    def usable(self, positions: Iterable[Position], consumer: Consumer) -> list[Position]:
        """Without the chunks of messages of which `consumer` does not have all: no client shows them to anybody."""
        return [
            position for position in positions if not (message := self.entries[position].message) or self.has_all(message, consumer)
        ]

    def has_all(self, message: int, consumer: Consumer) -> bool:
        return self.is_whole(message) and all(self.with_whom.get(position) is consumer for position in self.messages[message][1])

    def whole_messages(self, positions: Iterable[Position]) -> list[Position]:
        """`positions` and the other chunks of their messages, as clients name them."""
        whole: dict[Position, None] = {}
        for position in positions:
            message = self.entries[position].message if position in self.entries else 0
            whole.update(dict.fromkeys(self.messages[message][1] if message in self.messages else [position]))
        return list(whole)
