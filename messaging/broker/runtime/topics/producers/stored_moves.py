"""Which moves of dead letters a topic, as their target, has stored: known also when retention has deleted their blocks.

A move is written down here before its block is appended. Before ledgers are deleted, the blocks of the moves that are written down
are looked for, and what was found is stored. So whoever asks after a crash, however much later, learns what became of the last move
of each mover: a dead-letter policy, or a redrive job.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from messaging.broker.core.dead_letters.dead_entries import move_extension, position_of
from messaging.broker.core.dead_letters.moves import Move
from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.json_types import decoder_of
from messaging.storage import block_header
from messaging.storage.block_header import Extensions
from messaging.storage.ledger_store import Block, Corrupt, Position
from messaging.storage.managed.ledger import ManagedLedger

log = structlog.get_logger("broker.dead_letters")

SEARCH_BYTES = 4 << 20
MOVE_BYTES, PART_BYTES = 500, 40  # of memory
MOVERS_MAX = 1_000  # of one target; beyond them the one that moved longest ago is forgotten


class _StoredMove(msgspec.Struct):
    """`missing`: the sequence ids of its parts that were not found up to `after`, in order."""

    producer: str
    sequence_id: int
    parts: int
    missing: list[int]
    after: tuple[int, int]


class StoredMoves:
    """Of one topic. All raise `StoreError`."""

    def __init__(self, topic: TopicContext, ledger: ManagedLedger) -> None:
        self._topic = topic
        self._ledger = ledger
        self._charge = Charge(topic.services.memory.records, topic.name.tenant)
        self._moves: dict[str, _StoredMove] | None = None  # by mover, the one that moved last at the end; None: not read yet
        self._reading = asyncio.Lock()

    async def begin(self, mover: str, move: Move, producer: str) -> None:
        """The parts of `move` are about to be appended by `producer`, as `mover`. Durable when it returns."""
        moves = await self._read()
        known = moves.pop(mover, None)
        moves[mover] = known if known is not None and known.sequence_id == move.sequence_id else _new(move, producer)
        while len(moves) > MOVERS_MAX:
            del moves[next(iter(moves))]
        await self._save(moves)

    async def parts_stored(self, mover: str, move: Move, producer: str) -> int:
        """How many parts of `move` the topic has, or had: the first ones, as each is durable before the next."""
        stored = (await self._read()).get(mover)
        known = stored if stored is not None and stored.sequence_id == move.sequence_id else _new(move, producer)
        missing, _ = await self._search(mover, known)
        return known.parts - len(missing)

    async def keep_outcomes(self) -> None:
        """Ledgers are about to be deleted."""
        moves = await self._read()
        changed = False
        for mover, move in [(mover, move) for mover, move in moves.items() if move.missing]:
            missing, after = await self._search(mover, move)
            if moves.get(mover) is move:
                move.missing, move.after = missing, after
                changed = True
        if changed:
            await self._save(moves)

    async def _search(self, mover: str, move: _StoredMove) -> tuple[list[int], tuple[int, int]]:
        """What is missing still, and up to where that was looked for."""
        missing = {(block_header.DEAD_LETTER_MOVE, move_extension(mover, sequence_id)): sequence_id for sequence_id in move.missing}
        producer, ledger, ledger_list = move.producer.encode(), self._ledger, self._topic.ledger_list
        reached = position_of(move.after)
        position = ledger_list.resolve(ledger_list.next_after(reached))
        while missing and ledger_list.holds(position):
            try:
                blocks = await ledger.read(position, entries_max=100_000, bytes_max=SEARCH_BYTES)
            except Corrupt as error:
                position = ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
                continue
            for block in blocks:
                for extension in self._extensions(block, producer):
                    missing.pop(extension, None)
            if not blocks:
                break
            reached = Position(position.ledger_id, blocks[-1].last_entry)
            position = ledger_list.resolve(ledger_list.next_after(reached))
        return list(missing.values()), (reached.ledger_id, reached.entry_id)

    def _extensions(self, block: Block, producer: bytes) -> Extensions:
        """Of a block that `producer` has appended."""
        try:
            header = block_header.decode(block.header)
        except ValueError as error:  # as with one that cannot be read: what it was is not known, and the others are looked at
            log.error("dead_letters.unreadable", topic=self._topic.text, ledger_id=block.ledger_id, error=str(error))
            return ()
        return header.extensions if header.producer == producer else ()

    async def _read(self) -> dict[str, _StoredMove]:
        async with self._reading:
            if self._moves is None:
                stored = await self._topic.services.stores.storage.meta.get_value(key_of(self._topic.text))
                try:
                    self._moves = decoder_of(dict[str, _StoredMove]).decode(stored) if stored else {}
                except ValueError as error:
                    log.critical("dead_letters.damaged", topic=self._topic.text, error=str(error))
                    self._moves = {}
                self._count()
            return self._moves

    def _count(self) -> None:
        """Charges what is kept, as far as the tenant may have it: nothing is refused for it."""
        size = sum(_memory_bytes(mover, move) for mover, move in (self._moves or {}).items())
        more = size - self._charge.held_bytes
        if more <= 0 or self._charge.holds_little or self._charge.allows(more):
            self._charge.change(more)

    def release(self) -> None:
        """The topic is closed. Idempotent."""
        self._charge.end()

    async def _save(self, moves: dict[str, _StoredMove]) -> None:
        """The store executes calls in order, so that the last one counts."""
        self._count()
        storage = self._topic.services.stores.storage
        await storage.meta.put_value(storage.fence_of(self._topic.text), key_of(self._topic.text), msgspec.json.encode(moves))


def key_of(topic: str) -> str:
    return f"stored-moves:{topic}"


def _memory_bytes(mover: str, move: _StoredMove) -> int:
    return MOVE_BYTES + len(mover) + len(move.producer) + PART_BYTES * len(move.missing)


def _new(move: Move, producer: str) -> _StoredMove:
    parts = [part.sequence_id for part in move.all_parts]
    return _StoredMove(producer, move.sequence_id, len(parts), parts, move.after)
