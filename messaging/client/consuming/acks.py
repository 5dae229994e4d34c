"""Which messages of a batch are done, and what the broker is told. Pure.

The broker's unit is the entry: a message, or a batch. An acknowledgement of a part of a batch carries a set with a bit for each
of its messages, in 64-bit words, the first message lowest: 1 means that it is still to be acknowledged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from messaging.client.consuming.redelivery import Entry
from messaging.client.message import MessageId
from messaging.protocol import pulsar_pb2 as pb

_WORD = (1 << 64) - 1
AGAIN_KEPT_MAX = 10_000  # entries


@dataclass(slots=True)
class Delivered:
    """An entry that the application has, whole or in part. `unacked`: a bit for each message. `chunks`: the entries of the other
    chunks of a message, which end with this one."""

    size: int
    unacked: int
    redelivery_count: int
    chunks: Sequence[Entry] = ()


def words_of(bits: int) -> list[int]:
    """As signed numbers, as the protocol has them. At least one word."""
    words: list[int] = []
    while bits or not words:
        word = bits & _WORD
        words.append(word - (1 << 64) if word >> 63 else word)
        bits >>= 64
    return words


def bits_of(words: Sequence[int]) -> int:
    bits = 0
    for index, word in enumerate(words):
        bits |= (word & _WORD) << (64 * index)
    return bits


class AckTracker:
    """`batch_index`: the broker is told of parts of batches; otherwise of whole ones only."""

    def __init__(self, *, batch_index: bool) -> None:
        self._batch_index = batch_index
        self._delivered: dict[Entry, Delivered] = {}
        self._again: dict[Entry, Delivered] = {}  # they come again, and the application may still have them
        self._individual: dict[Entry, int] = {}  # to be sent: entry -> bits that are left; 0 for the whole
        self._sizes: dict[Entry, int] = {}
        self._cumulative: tuple[Entry, int, int] | None = None

    def delivered(self, entry: Entry, state: Delivered) -> None:
        self._delivered[entry] = state
        self._again.pop(entry, None)

    def get(self, entry: Entry) -> Delivered | None:
        """Also of one that comes again: the application may have it."""
        return self._delivered.get(entry) or self._again.get(entry)

    def come_again(self, entries: Iterable[Entry], queued: Container[Entry]) -> None:
        """What the application acknowledges meanwhile is sent. `queued`: nothing of these was received yet, so that nobody will."""
        for entry in entries:
            state = self._delivered.pop(entry, None)
            if state is not None and entry not in queued:
                self._again[entry] = state
                if len(self._again) > AGAIN_KEPT_MAX:
                    del self._again[next(iter(self._again))]

    def all_come_again(self, queued: Container[Entry]) -> None:
        self.come_again([*self._delivered], queued)

    def forget_all(self) -> None:
        """The subscription was moved."""
        self._delivered.clear()
        self._again.clear()

    def ack(self, message_id: MessageId) -> Entry | None:
        """Returns the entry if all of it is acknowledged now."""
        entry = Entry(message_id.ledger_id, message_id.entry_id)
        state = self.get(entry)
        if state is None:
            if message_id.batch_index >= 0:
                return None  # of a batch that is not known: nobody can say which others of it are done
            self._individual[entry] = 0
            return entry
        if message_id.batch_index >= 0:
            state.unacked &= ~(1 << message_id.batch_index)
            if state.unacked:
                if self._batch_index:
                    self._individual[entry] = state.unacked
                    self._sizes[entry] = state.size
                return None
        self._delivered.pop(entry, None)
        self._again.pop(entry, None)
        for chunk in (*state.chunks, entry):
            self._individual[chunk] = 0
        return entry

    def ack_cumulative(self, message_id: MessageId) -> list[Entry]:
        """Everything up to this message. Returns the entries that are acknowledged now."""
        entry = Entry(message_id.ledger_id, message_id.entry_id)
        state = self.get(entry)
        left = 0
        if state is not None and message_id.batch_index >= 0:
            left = state.unacked = state.unacked & ~((2 << message_id.batch_index) - 1)
        unknown = state is None and message_id.batch_index >= 0  # whether it is the last of its batch
        if unknown or (left and not self._batch_index):
            before = self._before(entry)
            if before is None:
                return []
            entry, left = before, 0
        if self._cumulative is None or (entry, -left) >= (self._cumulative[0], -self._cumulative[1]):
            self._cumulative = (entry, left, state.size if state is not None else 0)
        done = [known for known in self._delivered if known < entry or (known == entry and not left)]
        for known in done:
            del self._delivered[known]
        for known in [known for known in self._again if known < entry or (known == entry and not left)]:
            del self._again[known]
        for known in [known for known in self._individual if known <= entry]:
            del self._individual[known]
        return done

    def _before(self, entry: Entry) -> Entry | None:
        """Up to which the broker can be told when not of all of this one."""
        if entry.entry_id:
            return Entry(entry.ledger_id, entry.entry_id - 1)
        known = [*self._delivered, *self._again, *self._individual]
        return max((other for other in known if other < entry), default=None)

    def tells_of(self, message_id: MessageId) -> bool:
        """Whether what is to be sent says that this message is acknowledged."""
        entry = Entry(message_id.ledger_id, message_id.entry_id)
        bits = 1 << message_id.batch_index if message_id.batch_index >= 0 else -1
        if entry in self._individual:
            return not self._individual[entry] & bits
        if self._cumulative is None:
            return False
        last, left, _ = self._cumulative
        return entry < last or (entry == last and not left & bits)

    @property
    def waiting(self) -> int:
        return len(self._individual) + (self._cumulative is not None)

    def take(self, consumer_id: int, most: int) -> list[pb.Ack]:
        """What is to be sent: no more than `most` ids in each command."""
        commands = []
        if self._cumulative is not None:
            entry, left, size = self._cumulative
            self._cumulative = None
            message_id = _id_of(entry, left, size)
            commands.append(pb.Ack(consumer_id=consumer_id, ack_type=pb.Ack.Cumulative, message_id=[message_id]))
        individual, self._individual = self._individual, {}
        sizes, self._sizes = self._sizes, {}
        ids = [_id_of(entry, left, sizes.get(entry, 0)) for entry, left in individual.items()]
        for at in range(0, len(ids), most):
            commands.append(pb.Ack(consumer_id=consumer_id, ack_type=pb.Ack.Individual, message_id=ids[at : at + most]))
        return commands


def _id_of(entry: Entry, left: int, size: int) -> pb.MessageId:
    message_id = pb.MessageId(ledger_id=entry.ledger_id, entry_id=entry.entry_id)
    if left:
        message_id.ack_set.extend(words_of(left))
        message_id.batch_size = size
    return message_id
