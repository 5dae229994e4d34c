"""Compacts one topic as a client of the broker: reads it twice, decides what stays, and writes that into a new ledger."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from messaging.adminrpc.compaction import (
    CompactionBegin,
    CompactionBlock,
    CompactionCommit,
    CompactionEnd,
    CompactionRead,
    CompactionWrite,
)
from messaging.adminrpc.methods import COMPACTION_ABORT, COMPACTION_BEGIN, COMPACTION_COMMIT, COMPACTION_READ, COMPACTION_WRITE
from messaging.broker.core.compaction.blocks import BlockBuilder
from messaging.broker.core.compaction.last_values import LastValues, RecordBuffer
from messaging.broker.core.compaction.passes import CompactionRules, FirstPass, SecondPass
from messaging.errors import MagnetarError
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.settings import Settings
from messaging.storage.block_header import CHUNKS, MARKER, decode
from messaging.storage.ledger_store import Block, Position
from workers.environment import Environment
from workers.part_files import DiskPart, forget_folder, fresh_folder

WRITE_BYTES = 512 << 10  # of one call
BEGINNING = Position(-1, 0)


class SessionOfTopic(NamedTuple):
    """Of one topic; its owner has it."""

    topic: str
    session: str


class StoredEntry(NamedTuple):
    position: Position
    frame: bytes
    broker_time_ms: int
    chunked: bool


def compact_topic(environment: Environment, topic: str, task_id: str, renew: Callable[[], None]) -> int:
    """Returns how many messages were removed. Raises `MagnetarError` or whatever `renew` raises: the topic is then as it was, and
    the broker knows why."""
    begun = environment.rpc.call(COMPACTION_BEGIN, CompactionBegin(topic=topic, task_id=task_id))
    session = SessionOfTopic(topic, begun.session)
    folder = fresh_folder(parts_folder(environment.settings) / session.session)
    try:
        return _compact(environment, session, renew, folder)
    except BaseException as error:
        why = error.message if isinstance(error, MagnetarError) else f"{type(error).__name__}: {error}"
        with suppress(MagnetarError):  # else the broker notices that nothing comes any more
            environment.rpc.call(COMPACTION_ABORT, CompactionEnd(**session._asdict(), error=why[:1000]))
        raise
    finally:
        forget_folder(folder)


def parts_folder(settings: Settings) -> Path:
    """Where compactions that are under way keep what does not fit into memory, each in a folder of its own."""
    return settings.data_path / "compaction"


def _compact(environment: Environment, session: SessionOfTopic, renew: Callable[[], None], folder: Path) -> int:
    settings = environment.settings
    rules = CompactionRules(settings.topic_compaction_retain_null_key, settings.message_bytes_max * UNPACKED_TIMES_MAX)
    last_values = LastValues(lambda index: DiskPart(folder / f"part-{index}"), secrets.token_bytes(16))
    first = FirstPass(last_values, RecordBuffer(lambda: DiskPart(folder / "chunks")), rules)
    for entry in entries_of(environment, session, renew):
        first.see(entry.frame)
    surviving = first.surviving(renew)
    removed = first.messages - len(surviving)
    second, builder = SecondPass(surviving, rules), BlockBuilder()
    for entry in entries_of(environment, session, renew):
        kept = second.keep(entry.frame)
        if kept is not None:
            builder.add(entry.position, kept, entry.broker_time_ms, chunked=entry.chunked)
            if builder.full_bytes >= WRITE_BYTES:
                _write(environment, session, builder.take())
    _write(environment, session, builder.take(all_of_them=True))
    renew()
    commit = CompactionCommit(**session._asdict(), removed_messages=removed, last_batch_index=second.last_batch_index)
    environment.rpc.call(COMPACTION_COMMIT, commit)
    return removed


def entries_of(environment: Environment, session: SessionOfTopic, renew: Callable[[], None]) -> Iterator[StoredEntry]:
    """All entries of the topic that a compaction looks at, in order, without the broker's own markers."""
    position = BEGINNING
    while True:
        renew()
        asked = CompactionRead(**session._asdict(), ledger_id=position.ledger_id, entry_id=position.entry_id)
        page = environment.rpc.call(COMPACTION_READ, asked)
        for block in page.blocks:
            yield from _entries_in(block)
        if page.done:
            return
        position = Position(page.ledger_id, page.entry_id)


def _entries_in(block: CompactionBlock) -> Iterator[StoredEntry]:
    try:
        header = decode(block.block_header)
    except ValueError:  # not a block of ours: nobody is sent it either
        return
    if header.flags & MARKER:
        return
    begin = 0
    for entry_id, stop in enumerate(block.end_offsets, block.first_entry):
        if stop > begin:
            position = Position(block.ledger_id, entry_id)
            yield StoredEntry(position, block.block_data[begin:stop], header.broker_time_ms, header.flags & CHUNKS != 0)
        begin = stop


def _write(environment: Environment, session: SessionOfTopic, blocks: list[Block]) -> None:
    if blocks:
        environment.rpc.call(COMPACTION_WRITE, CompactionWrite(**session._asdict(), blocks=[_sent(block) for block in blocks]))


def _sent(block: Block) -> CompactionBlock:
    return CompactionBlock(
        ledger_id=block.ledger_id,
        first_entry=block.first_entry,
        block_header=block.header,
        block_data=bytes(block.data),
        end_offsets=array("I", block.end_offsets).tolist(),
    )
