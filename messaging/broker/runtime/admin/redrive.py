"""Redrive of dead letters on the broker: looks through a subscription, and moves what a worker has written down, exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from messaging.adminrpc import redrive as schema
from messaging.adminrpc.methods import REDRIVE_MOVE, REDRIVE_PREPARE, REDRIVE_SCAN
from messaging.broker.core.dead_letters.dead_entries import DeadEntry
from messaging.broker.core.dead_letters.moves import Move, Part
from messaging.broker.core.dead_letters.redrive import (
    Edit,
    Judged,
    NotEditable,
    RedriveConditions,
    edited_frame,
    judge,
    producer_name,
    redriven_frames,
)
from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.dead_letters.targets import MoveTarget
from messaging.broker.runtime.topics.backlog.stored_entries import LastBlock, stored_entry
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.errors import Conflict, InvalidValue, NotAllowed, NotFound, NotReady
from messaging.fairness.in_thread import in_thread
from messaging.fairness.turns import FairTurns
from messaging.limits.sizes import TOPIC_BYTES_MAX
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import MetaConflict
from messaging.times import TIME_MS_MAX

LOOKED_AT_MAX = 500  # entries of one call
LOOKED_AT_BYTES = 4 << 20
SLICE_ENTRIES, SLICE_BYTES = 100, 256 << 10  # of one turn: they are read, and then judged in a thread together


class _Unjudged(NamedTuple):
    """`looked_at`: entries of this page up to this one."""

    entry: DeadEntry
    publish_time_ms: int
    looked_at: int


class Redrive:
    """`scans`: the turns of whoever reads a topic at length."""

    def __init__(self, broker: Broker, scans: FairTurns) -> None:
        self._broker = broker
        self._scans = scans
        self._moving: set[tuple[str, str]] = set()  # topic and subscription

    @answers(REDRIVE_SCAN)
    async def scan(self, request: schema.RedriveScan) -> schema.RedriveFoundPage:
        topic = await self._source(request)
        subscription = topic.subscriptions.table.get(request.subscription)
        if subscription is None and request.make_subscription:
            making = asyncio.ensure_future(self._made(topic, request.subscription, request.owner))
            subscription = await asyncio.shield(making)  # it is made, and audited, even if the caller leaves meanwhile
        wanted = RedriveConditions(*(getattr(request, name) for name in RedriveConditions._fields))
        matching: list[schema.RedriveFound] = []
        looked_at = size = 0
        if request.positions:
            return await self._scan_these(topic, subscription, request, wanted)
        position = topic.ledger_list.resolve(Position(request.ledger_id, request.entry_id))
        found_max = request.found_max
        while (
            topic.ledger_list.holds(position) and looked_at < LOOKED_AT_MAX and size < LOOKED_AT_BYTES and len(matching) < found_max
        ):
            entries_max = min(SLICE_ENTRIES, LOOKED_AT_MAX - looked_at, found_max - len(matching))
            async with self._scans.turn(topic.name.tenant):
                unjudged, looked_at, position = await _slice(topic, subscription, position, entries_max, looked_at)
                matching += await self._judge(topic, unjudged, wanted, request.shown_property)
            size += sum(len(message.entry.stored) for message in unjudged)
        done = not topic.ledger_list.holds(position)
        return schema.RedriveFoundPage(
            found=matching, looked_at=looked_at, ledger_id=position.ledger_id, entry_id=position.entry_id, done=done
        )

    async def _scan_these(
        self, topic: PersistentTopic, subscription: Subscription | None, request: schema.RedriveScan, wanted: RedriveConditions
    ) -> schema.RedriveFoundPage:
        """Of the entries that were named: so few that each is looked at by itself."""
        begin = Position(request.ledger_id, request.entry_id)
        named = [position for position in sorted(_positions_of(request.positions)) if position >= begin]
        taken = named[: min(request.found_max, SLICE_ENTRIES)]
        unjudged: list[_Unjudged] = []
        async with self._scans.turn(topic.name.tenant):
            for number, position in enumerate(taken):
                if topic.ledger_list.holds(position):
                    unjudged += (await _slice(topic, subscription, position, 1, number))[0]
            matching = await self._judge(topic, unjudged, wanted, request.shown_property)
        behind = taken[-1] if taken else begin
        return schema.RedriveFoundPage(
            found=matching,
            looked_at=len(taken),
            ledger_id=behind.ledger_id,
            entry_id=behind.entry_id + 1,
            done=len(taken) == len(named),
        )

    async def _judge(
        self, topic: PersistentTopic, unjudged: list[_Unjudged], wanted: RedriveConditions, shown_property: str
    ) -> list[schema.RedriveFound]:
        if not unjudged:
            return []
        unpacked_max = self._unpacked_max

        def work() -> list[Judged]:
            return [judge(entry, publish_time_ms, wanted, unpacked_max, shown_property) for entry, publish_time_ms, _ in unjudged]

        largest_bytes = max(_unpacked_bytes(message.entry) for message in unjudged)  # one is unpacked at a time
        with _Charged(self._broker, topic, largest_bytes):
            verdicts = await in_thread(work)
        return [_found(message, judged) for message, judged in zip(unjudged, verdicts, strict=True) if judged.matches]

    @answers(REDRIVE_PREPARE)
    async def prepare(self, request: schema.RedrivePrepare) -> schema.RedriveTarget:
        name = await self._authorized_target(request.target, request.owner)
        count = await self._broker.partition_count(name, auto_create=True)
        if count:
            name = parse_topic(f"{name}-partition-{request.step % count}")
        target = await self._broker.move_targets.open(name)
        last = await target.last()
        return schema.RedriveTarget(target=target.text, ledger_id=last.ledger_id, entry_id=last.entry_id)

    @answers(REDRIVE_MOVE)
    async def move(self, request: schema.RedriveMove) -> schema.RedriveMoved:
        topic = await self._source(request)
        subscription = topic.subscriptions.table.get(request.subscription)
        if subscription is None:  # somebody deleted it since the scan
            subscription = await self._made(topic, request.subscription, request.owner)
        target = await self._broker.move_targets.open(await self._authorized_target(request.target, request.owner))
        if subscription.consumers:
            raise Conflict(f"subscription {subscription.name!r} has consumers: close them, or redrive another subscription")
        key = (topic.text, subscription.key)
        if key in self._moving:
            raise NotReady(f"messages of subscription {subscription.name!r} are being redriven: try again")
        self._moving.add(key)
        try:
            return await self._move(topic, subscription, target, request)
        finally:
            self._moving.discard(key)

    async def _move(
        self, topic: PersistentTopic, subscription: Subscription, target: MoveTarget, request: schema.RedriveMove
    ) -> schema.RedriveMoved:
        positions = _positions_of(request.positions)
        behind = (request.ledger_id, request.entry_id)
        step = Move(request.step, tuple(positions), target.text, behind, (Part(len(positions), request.step),))
        if await target.parts_stored(request.job, step, producer_name(request.job)):
            await topic.acknowledgements.acknowledge_entries(subscription, positions, DeliveryEvent.DEAD_LETTERED)
            return schema.RedriveMoved(messages=0, already=True, gone=[])
        entries, gone, last = [], [], LastBlock(topic.entries)
        for position in positions:
            block = None if subscription.cursor.acknowledged(position) else await last.at(position)
            if block is None or block.marker:
                gone.append([position.ledger_id, position.entry_id])
            else:
                entries.append(_entry_of(block, subscription, position))
        if entries:
            if why := self._broker.policies.publishing_stopped(parse_topic(target.text)):  # resumed once the cap is raised
                raise NotAllowed(why)
            await target.begin(request.job, step, producer_name(request.job))
        messages = await self._append(topic, target, request, entries) if entries else 0
        await topic.acknowledgements.acknowledge_entries(
            subscription, [dead_entry.position for dead_entry in entries], DeliveryEvent.DEAD_LETTERED
        )
        return schema.RedriveMoved(messages=messages, already=False, gone=gone)

    async def _append(
        self, topic: PersistentTopic, target: MoveTarget, request: schema.RedriveMove, entries: Sequence[DeadEntry]
    ) -> int:
        name, now_ms = producer_name(request.job), self._broker.now_ms()
        with _Charged(self._broker, topic, sum(map(_unpacked_bytes, entries))):
            frames = await in_thread(lambda: self._frames(request, entries, name, now_ms))
            await target.attach(name, Principal(request.owner))
            try:
                await target.append([frame for frame, _ in frames], request.job, request.step)
            finally:
                target.close()
        return sum(count for _, count in frames)

    def _frames(self, request: schema.RedriveMove, entries: Sequence[DeadEntry], name: str, now_ms: int) -> list[tuple[bytes, int]]:
        sequence_id, edit = request.step << 32, request.edit
        if edit is None:
            return list(redriven_frames(entries, name, sequence_id, now_ms, self._unpacked_max))
        if len(request.positions) != 1:
            raise InvalidValue("an edit is of one entry")
        wanted = Edit(edit.edited_payload, edit.key, edit.properties)
        try:
            return [edited_frame(entries[0], wanted, name, sequence_id, now_ms, self._unpacked_max)]
        except NotEditable as error:
            raise NotAllowed(f"the message cannot be edited: {error}") from None

    async def _source(self, request: schema.RedriveScan | schema.RedriveMove) -> PersistentTopic:
        name = parse_topic(request.topic)
        if not name.persistent:
            raise NotAllowed(f"{name} is a non-persistent topic: it keeps no messages")
        resource = Resource(name.tenant, str(name.namespace), str(name), request.subscription)
        await self._broker.authorize(Principal(request.owner), Action.CONSUME, resource)
        topic = await self._broker.open_persistent_topic(name, create=False)
        if request.tenant_uid and request.tenant_uid != self._broker.access.view.tenant_uid(name.tenant):
            raise NotFound(f"tenant {name.tenant!r} was deleted: the one of that name now is another")
        return topic

    async def _made(self, topic: PersistentTopic, name: str, owner: str) -> Subscription:
        try:
            made = await topic.subscriptions.create(name, EARLIEST)
        except MetaConflict:
            return topic.subscriptions.named(name)  # a client was faster
        self._broker.audit.created(Principal(owner), topic, made)
        return made

    async def _authorized_target(self, text: str, owner: str) -> TopicName:
        name = parse_topic(text)
        if not name.persistent:
            raise NotAllowed(f"{name} is a non-persistent topic: messages are redriven to persistent ones")
        await self._broker.authorize(Principal(owner), Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        return name

    @property
    def _unpacked_max(self) -> int:
        return self._broker.settings.message_bytes_max * UNPACKED_TIMES_MAX


def _positions_of(pairs: Sequence[Sequence[int]]) -> list[Position]:
    """Raises `InvalidValue`: what is named twice would move twice."""
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidValue("positions are pairs of a ledger and an entry")
    positions = [Position(pair[0], pair[1]) for pair in pairs]
    if len(set(positions)) != len(positions):
        raise InvalidValue("positions name an entry twice")
    return positions


class _Charged:
    """What is unpacked is charged to the tenant of the source. Raises `NotReady` where there is no memory for it now."""

    def __init__(self, broker: Broker, topic: PersistentTopic, size_bytes: int) -> None:
        self._account, self._tenant, self._size_bytes = broker.memory_limiter.egress, topic.name.tenant, size_bytes

    def __enter__(self) -> None:
        if not self._account.allows(self._tenant, self._size_bytes):
            raise NotReady(f"there is not enough memory to unpack {self._size_bytes} bytes of dead letters: try again in a moment")
        self._account.take(self._tenant, self._size_bytes)

    def __exit__(self, *_: object) -> None:
        self._account.give(self._tenant, self._size_bytes)


def _unpacked_bytes(entry: DeadEntry) -> int:
    return len(entry.stored) * (1 if entry.messages == 1 else UNPACKED_TIMES_MAX)


async def _slice(
    topic: PersistentTopic, subscription: Subscription | None, position: Position, entries_max: int, looked_at: int
) -> tuple[list[_Unjudged], int, Position]:
    """What is not acknowledged from `position` on, how many entries of the page were looked at with it, `looked_at` of them before,
    and the position behind them. Without a subscription, as if there were a new one."""
    unjudged: list[_Unjudged] = []
    last = LastBlock(topic.entries)
    size, looked_at_max = 0, looked_at + entries_max
    while topic.ledger_list.holds(position) and looked_at < looked_at_max and size < SLICE_BYTES:
        looked_at += 1
        if subscription is None or not subscription.cursor.acknowledged(position):
            block = await last.at(position)
            if block is not None and not block.marker:
                entry = _entry_of(block, subscription, position)
                size += len(entry.stored)
                publish_time_ms = stored_entry(block, position.entry_id).metadata.publish_time
                publish_time_ms = min(publish_time_ms, TIME_MS_MAX)  # a producer may say anything
                unjudged.append(_Unjudged(entry, publish_time_ms, looked_at))
        position = topic.ledger_list.resolve(topic.ledger_list.next_after(position))
    return unjudged, looked_at, position


def _entry_of(block: EntryBlock, subscription: Subscription | None, position: Position) -> DeadEntry:
    stored, messages = block.payload(position.entry_id), block.messages_of(position.entry_id)
    open_bits = None if subscription is None else subscription.cursor.batches.bits(position)
    return DeadEntry(position, stored, open_bits, 0, messages)


def _found(message: _Unjudged, judged: Judged) -> schema.RedriveFound:
    entry = message.entry
    return schema.RedriveFound(
        ledger_id=entry.position.ledger_id,
        entry_id=entry.position.entry_id,
        messages=judged.messages,
        looked_at=message.looked_at,
        size_bytes=len(entry.stored),
        key=_cut(judged.key),
        publish_time_ms=judged.publish_time_ms,
        refused=judged.refused,
        origin_topic=_cut(judged.told.origin_topic, TOPIC_BYTES_MAX),
        origin_subscription=_cut(judged.told.origin_subscription),
        reason=_cut(judged.told.reason),
        producer=_cut(judged.told.producer),
        shown_property=_cut(judged.told.shown_property),
    )


def _cut(text: str, characters_max: int = schema.KEY_SHOWN_MAX) -> str:
    text = text.replace("\x00", "\ufffd")  # what redrives did is kept, and PostgreSQL keeps no NUL
    return text if len(text) <= characters_max else text[:characters_max] + "…"
