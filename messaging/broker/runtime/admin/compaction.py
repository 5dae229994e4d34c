"""Admin RPC: topic compaction, on demand and as workers carry it out."""

from __future__ import annotations

from array import array

from messaging.adminrpc import schema
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

    async def request(self, request: schema.TopicRef) -> schema.Empty:
        """Of a partitioned topic: every partition that there is."""
        name = await self._name(request.topic)
        names, partitioned = await parts_of(self._broker, name)
        for one in names:
            if not partitioned or await self._broker.topics.exists(one):
                await self._compactions.request(one)
        return schema.Empty()

    async def status(self, request: schema.TopicRef) -> schema.CompactionStatus:
        name = await self._name(request.topic)
        if not await self._broker.topics.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")
        text = str(name)
        return schema.CompactionStatus(status=self._compactions.status(text), last_error=self._compactions.result(text).last_error)

    async def due(self, request: schema.CompactionsDue) -> schema.CompactionsDuePage:
        limit = max(1, min(request.limit, 5_000))
        names = await self._broker.storage.meta.list_all_topics(after=request.after, limit=limit)
        found = await self._compactions.due(names, requested=not request.after)
        return schema.CompactionsDuePage(topics=found, next_after=names[-1] if len(names) == limit else "")

    async def begin(self, request: schema.CompactionBegin) -> schema.CompactionStart:
        name = parse_topic(request.topic)
        await check_plain(self._broker, name)
        return schema.CompactionStart(session=await self._compactions.begin(name))

    async def read(self, request: schema.CompactionRead) -> schema.CompactionPage:
        page = await self._compactions.read(request.session, Position(request.ledger_id, request.entry_id))
        following = page.following or Position(-1, -1)
        return schema.CompactionPage(
            blocks=[_block_sent(block) for block in page.blocks],
            ledger_id=following.ledger_id,
            entry_id=following.entry_id,
            done=page.following is None,
        )

    async def write(self, request: schema.CompactionWrite) -> schema.Empty:
        await self._compactions.write(request.session, [_block_given(block) for block in request.blocks])
        return schema.Empty()

    async def commit(self, request: schema.CompactionCommit) -> schema.Empty:
        await self._compactions.commit(request.session, request.removed_messages, request.last_batch_index)
        return schema.Empty()

    async def abort(self, request: schema.CompactionEnd) -> schema.Empty:
        await self._compactions.abort(request.session, request.error)
        return schema.Empty()


def _block_sent(block: Block) -> schema.CompactionBlock:
    return schema.CompactionBlock(
        ledger_id=block.ledger_id,
        first_entry=block.first_entry,
        block_header=block.header,
        block_data=bytes(block.data),
        end_offsets=block.end_offsets.tolist(),
    )


def _block_given(block: schema.CompactionBlock) -> Block:
    try:
        decode(block.block_header)
        end_offsets = array("I", block.end_offsets)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidValue(f"this is not a block: {error}") from None
    if not end_offsets or end_offsets[-1] != len(block.block_data) or sorted(end_offsets) != list(end_offsets):
        raise InvalidValue("this is not a block: its offsets do not fit its data")
    return Block(block.ledger_id, block.first_entry, block.block_header, block.block_data, end_offsets)
