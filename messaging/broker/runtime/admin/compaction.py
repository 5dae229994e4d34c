"""Admin RPC: topic compaction, on demand and as workers carry it out."""

from __future__ import annotations

from array import array

from messaging.adminrpc.base import Empty
from messaging.adminrpc.compaction import (
    CompactionBegin,
    CompactionBlock,
    CompactionCommit,
    CompactionEnd,
    CompactionPage,
    CompactionRead,
    CompactionsDue,
    CompactionsDuePage,
    CompactionStart,
    CompactionStatus,
    CompactionWrite,
)
from messaging.adminrpc.methods import (
    COMPACTION_ABORT,
    COMPACTION_BEGIN,
    COMPACTION_COMMIT,
    COMPACTION_DUE,
    COMPACTION_READ,
    COMPACTION_WRITE,
    TOPICS_COMPACT,
    TOPICS_COMPACTION_STATUS,
)
from messaging.adminrpc.topics import TopicRef
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import check_plain, parts_of, topic_name
from messaging.broker.runtime.broker import Broker
from messaging.errors import InvalidValue, NotAllowed, TopicNotFound
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import Block, Position


class CompactionHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._compactions = broker.compactions

    async def _name(self, text: str) -> TopicName:
        name = await topic_name(self._broker, text)
        if not name.persistent:
            raise NotAllowed(f"{name} is a non-persistent topic: it keeps no messages, and there is nothing to compact")
        return name

    @answers(TOPICS_COMPACT)
    async def request(self, request: TopicRef) -> Empty:
        """Of a partitioned topic: every partition that there is."""
        name = await self._name(request.topic)
        names, partitioned = await parts_of(self._broker, name)
        for part in names:
            if not partitioned or await self._broker.topics.exists(part):
                await self._compactions.request(part)
        return Empty()

    @answers(TOPICS_COMPACTION_STATUS)
    async def status(self, request: TopicRef) -> CompactionStatus:
        name = await self._name(request.topic)
        if not await self._broker.topics.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")
        text = str(name)
        return CompactionStatus(status=self._compactions.status(text), last_error=self._compactions.result(text).last_error)

    @answers(COMPACTION_DUE)
    async def due(self, request: CompactionsDue) -> CompactionsDuePage:
        limit = max(1, min(request.limit, 5_000))
        names = await self._broker.storage.meta.list_all_topics(after=request.after, limit=limit)
        own = [name for name in names if await self._broker.owners.serves(parse_topic(name))]
        topics = await self._compactions.due(own, requested=not request.after)
        return CompactionsDuePage(topics=topics, next_after=names[-1] if len(names) == limit else "")

    @answers(COMPACTION_BEGIN)
    async def begin(self, request: CompactionBegin) -> CompactionStart:
        name = parse_topic(request.topic)
        await check_plain(self._broker, name)
        return CompactionStart(session=await self._compactions.begin(name))

    @answers(COMPACTION_READ)
    async def read(self, request: CompactionRead) -> CompactionPage:
        page = await self._compactions.read(request.session, Position(request.ledger_id, request.entry_id))
        following = page.following or Position(-1, -1)
        return CompactionPage(
            blocks=[_block_sent(block) for block in page.blocks],
            ledger_id=following.ledger_id,
            entry_id=following.entry_id,
            done=page.following is None,
        )

    @answers(COMPACTION_WRITE)
    async def write(self, request: CompactionWrite) -> Empty:
        await self._compactions.write(request.session, [_block_given(block) for block in request.blocks])
        return Empty()

    @answers(COMPACTION_COMMIT)
    async def commit(self, request: CompactionCommit) -> Empty:
        await self._compactions.commit(request.session, request.removed_messages, request.last_batch_index)
        return Empty()

    @answers(COMPACTION_ABORT)
    async def abort(self, request: CompactionEnd) -> Empty:
        await self._compactions.abort(request.session, request.error)
        return Empty()


def _block_sent(block: Block) -> CompactionBlock:
    return CompactionBlock(
        ledger_id=block.ledger_id,
        first_entry=block.first_entry,
        block_header=block.header,
        block_data=bytes(block.data),
        end_offsets=block.end_offsets.tolist(),
    )


def _block_given(block: CompactionBlock) -> Block:
    try:
        decode(block.block_header)
        end_offsets = array("I", block.end_offsets)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidValue(f"this is not a block: {error}") from None
    if not end_offsets or end_offsets[-1] != len(block.block_data) or sorted(end_offsets) != list(end_offsets):
        raise InvalidValue("this is not a block: its offsets do not fit its data")
    return Block(block.ledger_id, block.first_entry, block.block_header, block.block_data, end_offsets)
