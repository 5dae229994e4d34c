"""Admin RPC: subscriptions. On a partitioned topic each call acts on every partition, in slices of the turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from messaging.ack_ranges import AckRange, kept_ranges, ranges_of_text
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PEEK,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
)
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    AcksBefore,
    PeekAnswer,
    Refused,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionMoved,
    SubscriptionNames,
    SubscriptionPeek,
    SubscriptionProperties,
    SubscriptionPropertiesSet,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.seek_target import Replayed, SeekTarget
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.admin import positions
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, stored_topic_name, topic_name
from messaging.broker.runtime.admin.peek import peek
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import all_in_slices
from messaging.errors import Conflict, InvalidValue, MagnetarError, PreconditionFailed, SubscriptionNotFound
from messaging.protocol.names import TopicName, parse_topic, subscription_name
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.meta_store import MetaConflict

Errors = type[MagnetarError] | tuple[type[MagnetarError], ...]

CHANGE_COST, READ_COST = 1_000, 100  # of one partition, in units of `core/turns/command_costs.py`
REPLAY_RANGES_MAX = 1_000  # each is written by itself
_LATEST = 2**63 - 1


class OfSubscription(Protocol):
    """A request about a subscription."""

    @property
    def topic(self) -> str: ...

    @property
    def subscription(self) -> str: ...


class CursorMove(OfSubscription, Protocol):
    """A request that moves or deletes it."""

    @property
    def dry_run(self) -> bool: ...


class MovedCursor(NamedTuple):
    """Mark-delete positions as text; "" before the subscription was there, or after."""

    topic: str
    before: str
    after: str
    backlog_entries: int = 0
    skipped_entries: int = 0
    again_entries: int = 0
    consumers: int = 0
    acknowledged: AcksBefore | None = None


class SubscriptionHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(SUBSCRIPTIONS_LIST)
    async def list_names(self, request: TopicRef) -> SubscriptionNames:
        parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))
        names: set[str] = set()

        async def look(name: TopicName) -> None:
            topic = await self._broker.topics.get(name, create=parts.partitioned)
            names.update(subscription.name for subscription in topic.subscriptions.table.values())

        await self._in_slices(parts.names, READ_COST, look)
        return SubscriptionNames(subscriptions=sorted(names))

    @answers(SUBSCRIPTIONS_CREATE)
    async def create(self, request: SubscriptionCreate) -> SubscriptionMoved:
        name = await stored_topic_name(self._broker, request.topic, "creating a subscription without a consumer on", InvalidValue)
        subscription = subscription_name(request.subscription)
        create = self._broker.policies.auto_creates_topics(name) and not request.dry_run
        if create:
            await self._broker.partition_count(name, auto_create=True)  # which creates a partitioned topic where that is the policy
        parts = await parts_of(self._broker, name)
        start = EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, request.entry_id)
        acknowledged = ranges_of_text(request.acknowledged)

        async def make(part: TopicName) -> MovedCursor:
            topic = await self._broker.topics.get(part, create=create or parts.partitioned)
            if request.dry_run:
                return _to_be_made(topic, subscription, start, acknowledged)
            try:
                made = await topic.subscriptions.create(subscription, start, request.properties)
            except MetaConflict:
                made = None
            if made is None:
                raise Conflict(f"subscription {subscription!r} already exists on {name}")
            if acknowledged:
                await topic.subscriptions.seek(made, SeekTarget(made.cursor.mark_delete, acknowledged=acknowledged))
            return MovedCursor(topic.text, "", _place(made), made.backlog_entries)

        return await self._change(parts.names, make, enough_of=Conflict)

    @answers(SUBSCRIPTIONS_DELETE)
    async def delete(self, request: SubscriptionDelete) -> SubscriptionMoved:
        async def plan(topic: Topic, subscription: Subscription) -> Position:
            if not request.force:
                topic.subscriptions.check_unused(subscription)
            return topic.ledger_list.last

        async def delete(topic: Topic, subscription: Subscription, target: Position) -> None:
            await topic.subscriptions.delete(subscription.key, force=request.force)

        return await self._move_each(request, plan, delete, deletes=True)

    @answers(SUBSCRIPTIONS_SKIP)
    async def skip(self, request: SubscriptionSkip) -> SubscriptionMoved:
        await stored_topic_name(self._broker, request.topic, "skipping messages of")

        async def plan(topic: Topic, subscription: Subscription) -> Position:
            if request.ledger_id is not None and request.entry_id is not None:
                asked = min(Position(request.ledger_id, request.entry_id), topic.ledger_list.last)
                return max(subscription.cursor.mark_delete, asked)
            return topic.ledger_list.last if request.entries is None else positions.position_ahead(subscription, request.entries)

        async def skip(topic: Topic, subscription: Subscription, target: Position) -> None:
            await persistent(topic).acknowledgements.skip_to(subscription, target)

        return await self._move_each(request, plan, skip)

    @answers(SUBSCRIPTIONS_RESET)
    async def reset(self, request: SubscriptionReset) -> SubscriptionMoved:
        acknowledged = ranges_of_text(request.acknowledged)
        if request.until_ms is not None:
            return await self._replay(request, request.until_ms)
        found = list[bool]()

        async def plan(topic: Topic, subscription: Subscription) -> Position:
            if request.timestamp_ms is not None:
                return await topic.entries.mark_delete_at_time(request.timestamp_ms)
            if request.ledger_id is None or request.entry_id is None:
                raise InvalidValue("a reset needs timestamp_ms, or ledger_id and entry_id")
            if 0 <= request.ledger_id < _LATEST:  # else it is none, but the beginning or the end
                found.append(topic.ledger_list.holds(Position(request.ledger_id, request.entry_id)))
            entry_id = request.entry_id + (1 if request.excluded and request.entry_id < _LATEST else 0)
            return topic.ledger_list.mark_for(EARLIEST if request.ledger_id < 0 else Position(request.ledger_id, entry_id))

        async def reset(topic: Topic, subscription: Subscription, target: Position) -> None:
            await topic.subscriptions.seek(subscription, SeekTarget(target, acknowledged=acknowledged))

        answer = await self._move_each(request, plan, reset, forgets=True, acknowledged=acknowledged)
        answer.no_message = bool(found) and not any(found)
        return answer

    async def _replay(self, request: SubscriptionReset, until_ms: int) -> SubscriptionMoved:
        from_ms = request.timestamp_ms
        if from_ms is None or from_ms >= until_ms:
            raise InvalidValue("a span that comes again needs timestamp_ms, and until_ms after it")
        parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))

        async def replay(name: TopicName) -> MovedCursor:
            topic, subscription = await self._subscription(request, name, create=parts.partitioned)
            persistent(topic)
            after = await topic.entries.mark_delete_at_time(from_ms)
            last = await topic.entries.mark_delete_at_time(until_ms)
            span = topic.ledger_list.ranges(after, last)
            if not span:
                raise Conflict(f"nothing that is stored of {request.topic} was published in this span")
            cursor = subscription.cursor
            again = _again(cursor, span)
            before, backlog_entries, consumers = _place(subscription), subscription.backlog_entries, len(subscription.consumers)
            acks, lasting = _acks(subscription), min(cursor.mark_delete, after)
            if not request.dry_run:
                await topic.subscriptions.seek(subscription, SeekTarget(after, replayed=Replayed(after, last)))
            now = _text(lasting) if request.dry_run else _place(subscription)
            return MovedCursor(topic.text, before, now, backlog_entries, 0, again, consumers, acks)

        return await self._change(parts.names, replay, enough_of=(SubscriptionNotFound, Conflict))

    @answers(SUBSCRIPTIONS_EXPIRE)
    async def expire(self, request: SubscriptionExpire) -> SubscriptionMoved:
        await stored_topic_name(self._broker, request.topic, "expiring messages of")
        cutoff_ms = self._broker.storage.safe_expiry_ms() - request.older_than_s * 1000
        if not request.subscription:
            if request.dry_run:
                raise InvalidValue("a dry run is of one subscription: name it")
            parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))

            async def expire_all(part: TopicName) -> None:
                topic = await self._broker.topics.get(part, create=False)
                await self._expire(topic, list(topic.subscriptions.table.values()), request, cutoff_ms)

            await self._in_slices(parts.names, CHANGE_COST, expire_all)
            return SubscriptionMoved()

        async def plan(topic: Topic, subscription: Subscription) -> Position:
            last = await self._last_expired(topic, request, cutoff_ms)
            mark_delete = subscription.cursor.mark_delete
            if last <= mark_delete and not positions.may_expire(subscription) and request.ledger_id is None:
                raise Conflict(
                    f"no message of {request.topic} expired for subscription {request.subscription!r}: "
                    "it has no backlog, or a small one that its consumers are about to receive"
                )
            return max(mark_delete, last)

        async def expire(topic: Topic, subscription: Subscription, target: Position) -> None:
            topic.check_open()
            await persistent(topic).acknowledgements.expire_each_up_to([subscription], target)

        return await self._move_each(request, plan, expire, enough_of=(SubscriptionNotFound, Conflict))

    async def _expire(self, topic: Topic, subscriptions: list[Subscription], request: SubscriptionExpire, cutoff_ms: int) -> None:
        if request.ledger_id is not None:
            last = await self._last_expired(topic, request, cutoff_ms)
            await persistent(topic).acknowledgements.expire_each_up_to(subscriptions, last)
        else:
            await positions.expire(persistent(topic), subscriptions, cutoff_ms)

    async def _last_expired(self, topic: Topic, request: SubscriptionExpire, cutoff_ms: int) -> Position:
        if request.ledger_id is None or request.entry_id is None:
            return await positions.expires_up_to(persistent(topic), cutoff_ms)
        last = Position(request.ledger_id, request.entry_id - int(request.excluded))
        return min(last, topic.ledger_list.last)

    @answers(SUBSCRIPTIONS_PROPERTIES)
    async def properties(self, request: SubscriptionRef) -> SubscriptionProperties:
        properties: dict[str, str] = {}

        async def look(topic: Topic, subscription: Subscription) -> None:
            properties.update(subscription.properties)

        await self._change_each(request, look)
        return SubscriptionProperties(properties=properties)

    @answers(SUBSCRIPTIONS_SET_PROPERTIES)
    async def set_properties(self, request: SubscriptionPropertiesSet) -> SubscriptionMoved:
        async def change(topic: Topic, subscription: Subscription) -> None:
            await topic.subscriptions.set_properties(subscription, request.properties)

        return await self._change_each(request, change)

    @answers(SUBSCRIPTIONS_PEEK)
    async def peek(self, request: SubscriptionPeek) -> PeekAnswer:
        return await peek(self._broker, request)

    # --- over the partitions

    async def _change_each(
        self, request: OfSubscription, act: Callable[[Topic, Subscription], Awaitable[None]]
    ) -> SubscriptionMoved:
        """On the topic, or on each partition that has the subscription. Raises `SubscriptionNotFound` where none has."""
        parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))

        async def change(name: TopicName) -> MovedCursor:
            topic, subscription = await self._subscription(request, name, create=parts.partitioned)
            before = _place(subscription)
            await act(topic, subscription)
            return MovedCursor(topic.text, before, _place(subscription), subscription.backlog_entries)

        return await self._change(parts.names, change, enough_of=SubscriptionNotFound)

    async def _move_each(
        self,
        request: CursorMove,
        plan: Callable[[Topic, Subscription], Awaitable[Position]],
        apply: Callable[[Topic, Subscription, Position], Awaitable[None]],
        *,
        forgets: bool = False,
        deletes: bool = False,
        acknowledged: Sequence[AckRange] = (),
        enough_of: Errors = SubscriptionNotFound,
    ) -> SubscriptionMoved:
        """The same for a move. `plan` says up to where everything counts as acknowledged, or raises what the move would raise, and
        changes nothing; a dry run ends there."""
        parts = await parts_of(self._broker, await topic_name(self._broker, request.topic))

        async def move(name: TopicName) -> MovedCursor:
            topic, subscription = await self._subscription(request, name, create=parts.partitioned)
            target = await plan(topic, subscription)
            before, backlog_entries, consumers = _place(subscription), subscription.backlog_entries, len(subscription.consumers)
            acks = _acks(subscription)
            effect = positions.effect_of_move(subscription, target, forgets=forgets, acknowledged=acknowledged)
            if not request.dry_run:
                await apply(topic, subscription, target)
            after = "" if deletes else _text(target) if request.dry_run else _place(subscription)
            return MovedCursor(topic.text, before, after, backlog_entries, effect.skipped, effect.again, consumers, acks)

        return await self._change(parts.names, move, enough_of=enough_of)

    async def _subscription(self, request: OfSubscription, name: TopicName, *, create: bool) -> tuple[Topic, Subscription]:
        topic = await self._broker.topics.get(name, create=create)
        return topic, topic.subscriptions.find(request.subscription) or topic.subscriptions.named(request.subscription)

    async def _change(
        self, names: Sequence[TopicName], change: Callable[[TopicName], Awaitable[MovedCursor]], *, enough_of: Errors
    ) -> SubscriptionMoved:
        """Changes all of them, as Pulsar does, also where one is refused: then it is said what was refused first, beside what was
        done. An error of `enough_of` counts only where nothing was done."""
        moves, errors = list[MovedCursor](), list[MagnetarError]()

        async def attempt(name: TopicName) -> None:
            try:
                moves.append(await change(name))
            except MagnetarError as error:
                errors.append(error)

        await self._in_slices(names, CHANGE_COST, attempt)
        refused = next((error for error in errors if not isinstance(error, enough_of)), None)
        if not moves:
            raise refused or errors[0]
        moves.sort(key=lambda move: parse_topic(move.topic).partition)
        return SubscriptionMoved(
            moved={move.topic: (move.before, move.after) for move in moves[:MOVED_SHOWN]},
            backlog_entries=sum(move.backlog_entries for move in moves),
            skipped_entries=sum(move.skipped_entries for move in moves),
            again_entries=sum(move.again_entries for move in moves),
            consumers=sum(move.consumers for move in moves),
            acknowledged={move.topic: move.acknowledged for move in moves[:MOVED_SHOWN] if move.acknowledged is not None},
            refused=None if refused is None else Refused(code=refused.code, message=refused.message),
        )

    async def _in_slices(self, names: Sequence[TopicName], cost: int, act: Callable[[TopicName], Awaitable[None]]) -> None:
        await all_in_slices(self._broker.topics.services.loops.slices(names[0].tenant), names, cost, act)


def _to_be_made(topic: Topic, name: str, start: Position, acknowledged: Sequence[AckRange]) -> MovedCursor:
    """Of a subscription that is not created yet. Raises `Conflict` where it is there."""
    if name in topic.subscriptions.table:
        raise Conflict(f"subscription {name!r} already exists on {topic.text}")
    cursor = Cursor(topic.ledger_list.mark_for(start))
    for each in acknowledged:
        cursor.acknowledge_range(*each, topic.ledger_list)
    return MovedCursor(topic.text, "", _text(cursor.mark_delete), cursor.backlog_entries(topic.ledger_list))


def _again(cursor: Cursor, span: Sequence[tuple[int, int, int]]) -> int:
    """How many entries of these are acknowledged, at least in part. Raises `PreconditionFailed` where a replay had too much to
    keep."""
    if sum(1 for _ in islice(cursor.individual_ranges(), REPLAY_RANGES_MAX + 1)) > REPLAY_RANGES_MAX:
        raise PreconditionFailed(
            f"the subscription has acknowledged more than {REPLAY_RANGES_MAX:,} separate ranges behind its position, which a "
            "replay keeps: reset it instead, or wait until its backlog is smaller"
        )
    again = 0
    for ledger_id, first, last in span:
        again += last - first + 1 - cursor.unacked_count(ledger_id, first, last)
        again += len(cursor.batches.entries_in(ledger_id, first, last))
    return again


def _acks(subscription: Subscription) -> AcksBefore | None:
    """What it has acknowledged behind its position; None where that is nothing."""
    cursor = subscription.cursor
    count = cursor.individual_ack_count + len(cursor.batches)
    if not count:
        return None
    kept = kept_ranges(cursor.individual_ranges())
    return AcksBefore(ranges=kept.text, entries=kept.entries, left_out=count - kept.entries)


def _place(subscription: Subscription) -> str:
    return _text(subscription.cursor.mark_delete)


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"
