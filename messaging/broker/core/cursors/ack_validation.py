"""Validates acknowledgements: they must name existing entries, and messages that are in their batch. Pure; all clients'
acknowledgements pass through here.

Each id is checked separately: invalid ones are left out and reported, the others are applied. The size of a batch is stored with
its entry, not in the id. If it is not known, the id is returned in `unknown`, and the caller reads the entry and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

SizeOf = Callable[[Position], int | None]  # messages in an entry that exists; None: not known without reading it
_WORD = 64
_FULL = (1 << _WORD) - 1


class MessageAck(NamedTuple):
    """One id: of a whole entry or, with an `ack_set` (Pulsar's words: a bit for each unacknowledged message), of a part of it."""

    position: Position
    ack_set: Sequence[int] = ()


class IndividualAcks(NamedTuple):
    """`whole`: ledger -> entries. `partial`: entry -> the words of what stays unacknowledged. `refused`: why the first id that was
    refused cannot be acknowledged, or ""."""

    whole: dict[int, list[int]]
    partial: dict[Position, list[int]]
    unknown: list[MessageAck]
    refused: str


class CumulativeAck(NamedTuple):
    """Everything up to `position`; then of one entry the messages that `words` do not leave unacknowledged."""

    position: Position
    entry: Position | None = None
    words: Sequence[int] = ()


def check_individual(asked: Iterable[MessageAck], ledger_list: LedgerList, cursor: Cursor, size_of: SizeOf) -> IndividualAcks:
    named: dict[int, list[int]] = {}
    partial: dict[Position, list[int]] = {}
    unknown: list[MessageAck] = []
    refused = ""
    for ack in asked:
        position = ack.position
        if not ack.ack_set:
            named.setdefault(position.ledger_id, []).append(position.entry_id)
            continue
        if ledger_list.dropped(position.ledger_id):
            continue  # as the whole entry: see `_existing`
        if not ledger_list.holds(position):
            refused = refused or _missing(position, ledger_list)
            continue
        size = _size(position, cursor, size_of)
        if size is None:
            unknown.append(ack)
            continue
        words = _words(ack, size)
        if isinstance(words, str):
            refused = refused or words
        elif words != all_open(size):
            partial[position] = _both(partial[position], words) if position in partial else words
    for position in [position for position, words in partial.items() if not any(words)]:
        del partial[position]
        named.setdefault(position.ledger_id, []).append(position.entry_id)
    whole: dict[int, list[int]] = {}
    for ledger_id, entries in named.items():
        good, wrong = _existing(ledger_id, entries, ledger_list)
        refused = refused or wrong
        if good:
            whole[ledger_id] = good
    return IndividualAcks(whole, partial, unknown, refused)


def check_cumulative(asked: MessageAck, ledger_list: LedgerList, cursor: Cursor, size_of: SizeOf) -> CumulativeAck | str | None:
    """Returns a text if it is refused, and None if the size of the batch has to be read first.

    Clients name entry -1 of a ledger for "everything before its first entry"."""
    ledger_id, entry_id = asked.position
    if ledger_list.dropped(ledger_id):
        return CumulativeAck(asked.position)
    if entry_id == -1 and ledger_id in ledger_list.ids:
        return CumulativeAck(ledger_list.before(Position(ledger_id, 0)))
    if not ledger_list.holds(asked.position):
        return _missing(asked.position, ledger_list)
    if not asked.ack_set:
        return CumulativeAck(asked.position)
    size = _size(asked.position, cursor, size_of)
    if size is None:
        return None
    words = _words(asked, size)
    if isinstance(words, str):
        return words
    if not any(words):
        return CumulativeAck(asked.position)
    return CumulativeAck(ledger_list.before(asked.position), asked.position, words)


def _size(position: Position, cursor: Cursor, size_of: SizeOf) -> int | None:
    """Messages in the entry; if some are acknowledged, as many as its words have room for."""
    ack_set = cursor.batches.get(position)
    return size_of(position) if ack_set is None else _WORD * len(ack_set)


def _words(asked: MessageAck, size: int) -> list[int] | str:
    """The words of what `asked` leaves unacknowledged of a batch of `size` messages, or why it is refused."""
    words = [word & _FULL for word in asked.ack_set]
    if (len(words) - 1) * _WORD + words[-1].bit_length() > size:
        return f"the ack set of entry {_text(asked.position)} has {len(words)} words; its batch has {size} messages"
    return words


def _both(words: list[int], others: list[int]) -> list[int]:
    """What stays unacknowledged after both; words that are missing at the end are zero."""
    return [word & other for word, other in zip(words, others, strict=False)]


def all_open(size: int) -> list[int]:
    """The words of a batch without any acknowledged message."""
    whole, rest = divmod(size, _WORD)
    return [_FULL] * whole + ([(1 << rest) - 1] if rest else [])


def signed(value: int) -> int:
    """A number of a message id as signed; the wire has it unsigned: 2^64-1 is -1."""
    return value - (1 << _WORD) if value >> _WORD - 1 else value


def _existing(ledger_id: int, entries: list[int], ledger_list: LedgerList) -> tuple[list[int], str]:
    """Those that exist, and why the first that does not was refused."""
    if ledger_list.dropped(ledger_id):
        return [], ""  # retention dropped the ledger: everything in it was acknowledged
    last = ledger_list.last_of(ledger_id)
    if min(entries) >= 0 and max(entries) <= last:
        return entries, ""
    wrong = next(entry for entry in entries if not 0 <= entry <= last)
    return [entry for entry in entries if 0 <= entry <= last], _missing(Position(ledger_id, wrong), ledger_list)


def _missing(position: Position, ledger_list: LedgerList) -> str:
    return f"entry {_text(position)} does not exist: the topic ends at {_text(ledger_list.last)}"


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"
