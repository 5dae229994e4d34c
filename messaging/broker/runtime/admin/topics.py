"""Admin RPC: one topic, plain or partitioned."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
import structlog

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import (
    PARTITIONS_CHECK_UNUSED,
    PARTITIONS_DELETE,
    TOPICS_CHANGE_PROPERTIES,
    TOPICS_CREATE,
    TOPICS_CREATE_MISSING_PARTITIONS,
    TOPICS_DELETE,
    TOPICS_LAST_MESSAGE_ID,
    TOPICS_LOOKUP,
    TOPICS_PARTITIONS,
    TOPICS_PROPERTIES,
    TOPICS_TERMINATE,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_TIMES,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
    TOPICS_UPDATE_PARTITIONS,
)
from messaging.adminrpc.topics import (
    LookupAnswer,
    MessageIdAnswer,
    Partitions,
    PartitionsGet,
    PartitionsUpdate,
    TerminatedPartitions,
    TopicCreate,
    TopicDelete,
    TopicDeletion,
    TopicLookup,
    TopicProperties,
    TopicPropertiesChange,
    TopicRef,
    TopicsAsked,
    TopicTimes,
)
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, plain_topic, read_topic, stored_topic_name, topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.turn_slices import all_in_slices
from messaging.errors import Conflict, InvalidValue, NotAcceptable, NotAllowed, PreconditionFailed, TopicNotFound
from messaging.limits.model import check
from messaging.limits.rest import PROPERTIES
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_reserved
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.retention import NOTHING
from messaging.storage.recycled_topic import RecycledTopic, Recycling

log = structlog.get_logger("broker.topics")

CHANGE_COST = 1_000  # of one partition, in units of `core/turns/command_costs.py`


class TopicHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(TOPICS_CREATE)
    async def create(self, request: TopicCreate) -> Empty:
        name = await topic_name(self._broker, request.topic)
        if request.properties and not name.persistent:
            raise NotAcceptable(f"{name} is a non-persistent topic and keeps no properties: leave them out")
        if is_reserved(name):
            raise InvalidValue(f"{name}: topics of this name belong to the broker; choose another name")
        if request.partitions is None:
            await self._broker.topics.create(name, request.properties)
        else:
            await self._broker.topics.partitioned.create(name, request.partitions, request.properties)
        return Empty()

    @answers(TOPICS_DELETE)
    async def delete(self, request: TopicDelete) -> TopicDeletion:
        name, topics = await topic_name(self._broker, request.topic), self._broker.topics
        if not request.partitioned and name.partition < 0 and await topics.partitioned.get(name) is not None:
            raise Conflict(f"{name} is a partitioned topic: delete it as one, with all its partitions")
        if not request.recycle:
            return _deletion(await self._delete(name, request, None))
        kept = msgspec.json.encode({"policies": request.policies, "subscriptions": request.subscription_policies})
        async with topics.recycle_bin.place_for(name, request.deleted_by, kept) as place:
            return _deletion(await self._delete(name, request, place))

    async def _delete(self, name: TopicName, request: TopicDelete, place: RecycledTopic | None) -> RecycledTopic | None:
        """Returns where it went."""
        topics = self._broker.topics
        if request.partitioned:
            return await topics.partitioned.delete(name, force=request.force, recycled=place)
        await topics.delete(name, force=request.force, into=None if place is None else Recycling(place))
        return place

    @answers(PARTITIONS_CHECK_UNUSED)
    async def check_unused_partitions(self, request: TopicRef) -> Empty:
        await self._broker.topics.partitioned.check_unused_here(parse_topic(request.topic))
        return Empty()

    @answers(PARTITIONS_DELETE)
    async def delete_partitions(self, request: TopicRef) -> Empty:
        await self._broker.topics.partitioned.delete_here(parse_topic(request.topic))
        return Empty()

    @answers(TOPICS_PARTITIONS)
    async def partitions(self, request: PartitionsGet) -> Partitions:
        name = await topic_name(self._broker, request.topic)
        record = await self._broker.topics.partitioned.get(name)
        if record is not None:
            return Partitions(partitions=record.partitions, properties=record.properties)
        count = await self._broker.partition_count(name, auto_create=request.check_auto_creation)
        return Partitions(partitions=count)

    @answers(TOPICS_UPDATE_PARTITIONS)
    async def update_partitions(self, request: PartitionsUpdate) -> Empty:
        await self._broker.topics.partitioned.grow(await topic_name(self._broker, request.topic), request.partitions)
        return Empty()

    @answers(TOPICS_TIMES)
    async def times(self, request: TopicsAsked) -> TopicTimes:
        times: dict[str, int] = {}
        for text in request.topics:
            created_ms = await self._broker.topics.created_ms(parse_topic(text))
            if created_ms is not None:
                times[text] = created_ms
        return TopicTimes(created_ms=times)

    @answers(TOPICS_CREATE_MISSING_PARTITIONS)
    async def create_missing_partitions(self, request: TopicRef) -> Empty:
        await self._broker.topics.partitioned.create_missing(await topic_name(self._broker, request.topic))
        return Empty()

    @answers(TOPICS_PROPERTIES)
    async def properties(self, request: TopicRef) -> TopicProperties:
        name = await topic_name(self._broker, request.topic)
        partitioned = await self._broker.topics.partitioned.get(name)
        loaded = self._broker.topics.loaded.get(str(name))
        record = partitioned or (
            loaded.ledger.record if loaded is not None else await self._broker.storage.meta.get_topic(str(name))
        )
        if record is None:
            raise TopicNotFound(f"topic {name} does not exist")
        return TopicProperties(properties=record.properties)

    @answers(TOPICS_CHANGE_PROPERTIES)
    async def change_properties(self, request: TopicPropertiesChange) -> TopicProperties:
        """Raises `PreconditionFailed` where the topic would have more properties than any may have."""
        name = await topic_name(self._broker, request.topic)

        def changed(before: dict[str, str]) -> dict[str, str]:
            kept = {key: value for key, value in (before | request.properties).items() if key != request.removed}
            check("properties of the topic", kept, PROPERTIES)
            return kept

        if await self._broker.topics.partitioned.get(name) is not None:
            return TopicProperties(properties=await self._broker.topics.partitioned.change_properties(name, changed))
        topic = await self._broker.topics.get(name, create=False)
        if not topic.ledger.recorded:
            raise NotAcceptable(f"{name} is a non-persistent topic and keeps no properties")
        return TopicProperties(properties=await topic.change_properties(changed))

    @answers(TOPICS_LOOKUP)
    async def lookup(self, request: TopicLookup) -> LookupAnswer:
        """A broker that is to acquire the topic is as good an answer as its owner."""
        elsewhere = await self._broker.owners.where(await topic_name(self._broker, request.topic))
        addresses = asdict(self._broker.addresses) if elsewhere is None else elsewhere.addresses
        return LookupAnswer(**{kind: addresses.get(kind, "") for kind in LookupAnswer.__struct_fields__})

    @answers(TOPICS_UNLOAD)
    async def unload(self, request: TopicRef) -> Empty:
        name = await topic_name(self._broker, request.topic)
        parts = await parts_of(self._broker, name)
        if not parts.partitioned and not await self._broker.topics.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")
        slices = self._broker.topics.services.loops.slices(name.tenant)
        await all_in_slices(slices, parts.names, CHANGE_COST, self._broker.topics.unload)
        return Empty()

    @answers(TOPICS_TERMINATE)
    async def terminate(self, request: TopicRef) -> MessageIdAnswer:
        await stored_topic_name(self._broker, request.topic, "terminating", NotAcceptable)
        topic = persistent(await plain_topic(self._broker, request.topic))
        last = await topic.terminate()
        return MessageIdAnswer(ledger_id=last.ledger_id, entry_id=last.entry_id, partition=topic.name.partition)

    @answers(TOPICS_TERMINATE_PARTITIONS)
    async def terminate_partitions(self, request: TopicRef) -> TerminatedPartitions:
        """Calling again terminates what a failure left."""
        name = await stored_topic_name(self._broker, request.topic, "terminating")
        parts = await parts_of(self._broker, name)
        if not parts.partitioned:
            raise NotAllowed(f"{name} is not a partitioned topic: terminate it as a plain one")

        async def terminate(part: TopicName) -> MessageIdAnswer:
            position = await (await self._broker.topics.get_persistent(part, create=True)).terminate()
            return MessageIdAnswer(ledger_id=position.ledger_id, entry_id=position.entry_id)

        slices = self._broker.topics.services.loops.slices(name.tenant)
        last = await all_in_slices(slices, parts.names, CHANGE_COST, terminate)
        return TerminatedPartitions(last=last, partitions=[part.partition for part in parts.names])

    @answers(TOPICS_LAST_MESSAGE_ID)
    async def last_message_id(self, request: TopicRef) -> MessageIdAnswer:
        await stored_topic_name(self._broker, request.topic, "asking for the last message id of")
        topic = await read_topic(self._broker, request.topic)
        last = topic.ledger_list.last_confirmed
        size = await topic.entries.batch_size_of(last)
        return MessageIdAnswer(
            ledger_id=last.ledger_id,
            entry_id=last.entry_id,
            partition=topic.name.partition,
            batch_index=-1 if size is None else size - 1,
        )

    @answers(TOPICS_TRUNCATE)
    async def truncate(self, request: TopicRef) -> Empty:
        """Of a partitioned topic: every partition. Clients stay connected. Calling again finishes what was cut off."""
        name = await stored_topic_name(self._broker, request.topic, "truncating", PreconditionFailed)
        names, partitioned = await parts_of(self._broker, name)
        slices = self._broker.topics.services.loops.slices(name.tenant)
        await all_in_slices(slices, names, CHANGE_COST, lambda part: self._truncate(part, create=partitioned))
        return Empty()

    async def _truncate(self, name: TopicName, *, create: bool) -> None:
        """Cursors first, then the ledgers: a crash between leaves messages that nobody will get, which retention drops."""
        topic = await self._broker.topics.get_persistent(name, create=create)
        try:
            await topic.ledger.roll()
            last = topic.ledger_list.last
            if topic.deduplication.state is not None:  # what it knows of the messages cannot be read from them any more
                await topic.deduplication.save()
            for subscription in list(topic.subscriptions.table.values()):
                if topic.subscriptions.holds(subscription):  # else deleted meanwhile
                    await topic.acknowledgements.skip_to(subscription, last)
            await self._broker.compactions.truncate(topic)
            await topic.stored_moves.keep_outcomes()
            ledgers, freed = await topic.ledger.trim(last, NOTHING)
        except StoreError as error:
            raise refusal_of(error, f"topic {name} could not be truncated") from error
        log.info("topic.truncated", topic=str(name), ledgers=ledgers, freed_bytes=freed)


def _deletion(recycled: RecycledTopic | None) -> TopicDeletion:
    return TopicDeletion() if recycled is None else TopicDeletion(recycle_id=recycled.recycle_id, expires_ms=recycled.expires_ms)
