"""Moving and deleting subscriptions: what each move would do, doing it, and going back to where the cursor stood.

The broker moves; these actions check permissions. With `dry_run` they answer with what would happen and change nothing. The record
of the request, which `move` fills in, has the positions before and after: by it a move is undone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from messaging.adminrpc.base import Method
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SKIP,
    TOPICS_PARTITIONS,
)
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionMoved,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import PartitionsGet, TopicRef
from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.cursors import move, raise_refused
from tenants.actions.recorded_places import Place, place_of_text
from tenants.actions.topics import topic_resource
from tenants.audit.reading import Filters, read_page, records_of
from tenants.models import AuditRecord
from tenants.names import message_of
from tenants.scoping import tenant_scope

SKIPPED, CLEARED, RESET = "subscription.skip", "subscription.clear_backlog", "subscription.reset"
EXPIRED, DELETED, UNDONE = "subscription.expire", "subscription.delete", "subscription.undo"
MOVES = (SKIPPED, CLEARED, RESET, EXPIRED, DELETED, UNDONE)
UNDO_H = 24  # for so long a move can be undone
MOVES_SHOWN = 10  # of one subscription
RECORDS_LOOKED_AT = 100  # of one subscription, for its moves
_LATEST = 2**63 - 1
NAMED = {"latest": (_LATEST, _LATEST), "earliest": (-1, -1)}
M = TypeVar("M", SubscriptionDelete, SubscriptionExpire, SubscriptionReset, SubscriptionSkip)


class RecordedMove(NamedTuple):
    """`before`: where it stood, by topic or partition. `undoable` False: the record does not have all of them."""

    record_id: int
    at: datetime
    action: str
    before: dict[str, Place]
    undoable: bool
    role: str  # whose move it was

    @property
    def left_out(self) -> int:
        """Entries that were acknowledged one by one, and that the record does not have."""
        return sum(place.left_out for place in self.before.values())

    @property
    def until(self) -> datetime:
        return self.at + timedelta(hours=UNDO_H)


def skip(
    actor: Actor, topic: TopicName, subscription: str, entries: int, up_to: str = "", *, dry_run: bool = False
) -> SubscriptionMoved:
    """Acknowledges the next so many; or up to where a dry run ended, so that whoever confirms the same again skips nothing more.
    Raises `InvalidValue` for a partitioned topic, `SubscriptionNotFound`, `NotReady`."""
    asked = SubscriptionSkip(topic=str(topic), subscription=subscription, entries=entries, dry_run=dry_run)
    if up_to:
        end = message_of(topic, up_to)
        asked.ledger_id, asked.entry_id = end.ledger_id, end.entry_id
    require(actor, Action.CURSOR_ADMIN, topic_resource(topic, subscription))
    if _partitioned(topic):
        raise InvalidValue(
            f"skipping on a partitioned topic is not possible: use one of its partitions, {topic}-partition-0 and so on"
        )
    return _moved(actor, topic, SUBSCRIPTIONS_SKIP, asked)


def clear_backlog(actor: Actor, topic: TopicName, subscription: str, *, dry_run: bool = False) -> SubscriptionMoved:
    """Acknowledges everything. Raises `SubscriptionNotFound`, `NotReady`."""
    asked = SubscriptionSkip(topic=str(topic), subscription=subscription, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_SKIP, asked)


def expire(actor: Actor, topic: TopicName, subscription: str, older_than_s: int, *, dry_run: bool = False) -> SubscriptionMoved:
    """Acknowledges what the broker stored longer ago. Raises `Conflict` where there is nothing, `SubscriptionNotFound`,
    `NotReady`."""
    asked = SubscriptionExpire(topic=str(topic), subscription=subscription, older_than_s=older_than_s, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_EXPIRE, asked)


def reset_to_time(
    actor: Actor, topic: TopicName, subscription: str, timestamp_ms: int, *, dry_run: bool = False
) -> SubscriptionMoved:
    """To the first message published then or later. Its consumers connect again. Raises `SubscriptionNotFound`, `NotReady`."""
    asked = SubscriptionReset(topic=str(topic), subscription=subscription, timestamp_ms=timestamp_ms, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_RESET, asked)


def replay(
    actor: Actor, topic: TopicName, subscription: str, from_ms: int, until_ms: int, *, dry_run: bool = False
) -> SubscriptionMoved:
    """What was published from then until then comes again; everything else stays acknowledged, or waits, as it is. Its consumers
    connect again. Raises `InvalidValue`, `Conflict` where nothing of it is stored, `PreconditionFailed`, `SubscriptionNotFound`,
    `NotReady`."""
    asked = SubscriptionReset(topic=str(topic), subscription=subscription, timestamp_ms=from_ms, until_ms=until_ms, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_RESET, asked)


def reset_to(actor: Actor, topic: TopicName, subscription: str, position: str, *, dry_run: bool = False) -> SubscriptionMoved:
    """To "earliest", "latest" or a message id, which on a partitioned topic names the partition that is moved. Raises
    `InvalidValue`, `SubscriptionNotFound`, `NotReady`."""
    if position in NAMED:
        ledger_id, entry_id = NAMED[position]
    else:
        require(actor, Action.CURSOR_ADMIN, topic_resource(topic, subscription))
        message = message_of(topic, position)
        ledger_id, entry_id = message.ledger_id, message.entry_id
        if message.topic == topic and _partitioned(topic):
            raise InvalidValue(f"{topic} is partitioned: give ledger:entry:partition, or a time")
        topic = message.topic
    asked = SubscriptionReset(topic=str(topic), subscription=subscription, ledger_id=ledger_id, entry_id=entry_id, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_RESET, asked)


def create_subscription(actor: Actor, topic: TopicName, subscription: str, position: str) -> SubscriptionMoved:
    """A durable one at `position`, one of `NAMED`. Raises `Conflict` where it exists, `TopicNotFound`, `NotReady`."""
    require(actor, Action.CURSOR_ADMIN, topic_resource(topic, subscription))
    ledger_id, entry_id = NAMED[position]
    asked = SubscriptionCreate(topic=str(topic), subscription=subscription, ledger_id=ledger_id, entry_id=entry_id)
    return move(actor, SUBSCRIPTIONS_CREATE, asked)


def delete_subscription(actor: Actor, topic: TopicName, subscription: str, *, dry_run: bool = False) -> SubscriptionMoved:
    """Also one with consumers, which are disconnected. Raises `SubscriptionNotFound`, `NotReady`."""
    asked = SubscriptionDelete(topic=str(topic), subscription=subscription, force=True, dry_run=dry_run)
    return _moved(actor, topic, SUBSCRIPTIONS_DELETE, asked)


def recorded_moves(actor: Actor, topic: TopicName, subscription: str, now: datetime) -> list[RecordedMove]:
    """The last moves of the subscription that left a position to go back to, newest first, as far as they can be undone."""
    require(actor, Action.CURSOR_ADMIN, topic_resource(topic, subscription))
    filters = Filters(resource=f"{topic}/{subscription}", since=now - timedelta(hours=UNDO_H))
    with tenant_scope(topic.tenant):
        records = read_page(records_of(topic.tenant), filters, limit=RECORDS_LOOKED_AT).records
    moves = [_recorded(record) for record in records if record.action in MOVES and record.before]
    return moves[:MOVES_SHOWN]


def _recorded(record: AuditRecord) -> RecordedMove:
    before: dict[str, Place] = {}
    for name, text in record.before.items() if isinstance(record.before, dict) else ():
        place = place_of_text(text)
        if place is not None:
            before[name] = place
    whole = isinstance(record.before, dict) and len(before) == len(record.before) < MOVED_SHOWN
    return RecordedMove(record.id, record.at, record.action, before, whole, record.role)


def newest_move(actor: Actor, topic: TopicName, subscription: str, now: datetime) -> str:
    """What tells whether it was moved since; "" where no move is recorded."""
    return next((str(move.record_id) for move in recorded_moves(actor, topic, subscription, now)), "")


def check_not_moved(seen: str, newest: str) -> None:
    """Of what was shown when `seen` was the newest move. Raises `Conflict`."""
    if seen != newest:
        raise Conflict(
            "the subscription was moved since you looked, so nothing was done now: see what it would do, and confirm that again"
        )


def recorded_move(actor: Actor, topic: TopicName, subscription: str, record_id: int, now: datetime) -> RecordedMove:
    """One of `recorded_moves`. Raises `NotFound`."""
    for recorded in recorded_moves(actor, topic, subscription, now):
        if recorded.record_id == record_id:
            return recorded
    raise NotFound(f"there is no move of subscription {subscription!r} of the last {UNDO_H} hours to undo")


def undo(
    actor: Actor, topic: TopicName, subscription: str, record_id: int, now: datetime, *, dry_run: bool = False
) -> SubscriptionMoved:
    """Moves the cursor back to where it stood before that move, with what was acknowledged behind that one by one, as far as the
    record has it; a deleted subscription is created there. Raises `NotFound` for a move that is not one of
    `recorded_moves`, `PreconditionFailed` where the record does not have every position, `Conflict`, `NotReady`."""
    recorded = recorded_move(actor, topic, subscription, record_id, now)
    if not recorded.undoable:
        raise PreconditionFailed(
            f"the record of this move does not have the position of every partition (it has {MOVED_SHOWN - 1} at most): "
            "reset the subscription to a time instead"
        )
    if recorded.action == DELETED:
        return _created_again(actor, topic, subscription, recorded.before, dry_run=dry_run)
    answers = [
        _moved(actor, topic, SUBSCRIPTIONS_RESET, _back(name, subscription, place, dry_run))
        for name, place in recorded.before.items()
    ]
    return _all_of(answers)


def _all_of(answers: list[SubscriptionMoved]) -> SubscriptionMoved:
    return SubscriptionMoved(
        moved={name: positions for answer in answers for name, positions in answer.moved.items()},
        backlog_entries=sum(answer.backlog_entries for answer in answers),
        skipped_entries=sum(answer.skipped_entries for answer in answers),
        again_entries=sum(answer.again_entries for answer in answers),
        consumers=sum(answer.consumers for answer in answers),
        acknowledged={name: acks for answer in answers for name, acks in answer.acknowledged.items()},
    )


def _back(topic: str, subscription: str, place: Place, dry_run: bool) -> SubscriptionReset:
    return SubscriptionReset(
        topic=topic,
        subscription=subscription,
        ledger_id=place.ledger_id,
        entry_id=place.entry_id,
        excluded=place.ledger_id >= 0,
        acknowledged=place.acknowledged,
        dry_run=dry_run,
    )


def _created_again(
    actor: Actor, topic: TopicName, subscription: str, before: dict[str, Place], *, dry_run: bool
) -> SubscriptionMoved:
    """`backlog_entries` is what it has not acknowledged then."""
    if subscription in broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions:
        raise Conflict(f"subscription {subscription!r} of {topic} exists again: reset it instead")
    answers = []
    for name, place in before.items():
        asked = SubscriptionCreate(
            topic=name,
            subscription=subscription,
            ledger_id=place.ledger_id,
            entry_id=place.entry_id + 1 if place.ledger_id >= 0 else -1,
            acknowledged=place.acknowledged,
            dry_run=dry_run,
        )
        answers.append(broker.rpc().call(SUBSCRIPTIONS_CREATE, asked) if dry_run else move(actor, SUBSCRIPTIONS_CREATE, asked))
    return _all_of(answers)


def _moved(actor: Actor, topic: TopicName, method: Method[M, SubscriptionMoved], asked: M) -> SubscriptionMoved:
    require(actor, Action.CURSOR_ADMIN, topic_resource(topic, asked.subscription))
    if not asked.dry_run:
        return move(actor, method, asked)
    answer = broker.rpc().call(method, asked)
    raise_refused(answer)
    return answer


def _partitioned(topic: TopicName) -> bool:
    return bool(broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic))).partitions)
