"""Moves dead letters: entries that were redelivered too often go to the target of their subscription's dead-letter policy.

First the move is recorded, then its block is appended to the target, and only when that is durable its entries are
acknowledged. After a crash, or an append whose outcome is unknown, the number of the move that the block carries tells whether the
entries are in the target: each is there exactly once. What cannot be moved (the target is gone, full, or forbidden to the owner of
the policy) stays in the backlog and is tried again.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import structlog

from messaging.background import BackgroundLoops
from messaging.broker.core.dead_letters.dead_entries import (
    DeadEntry,
    DeadLetterPolicy,
    DeadLetterRecord,
    DeadLetters,
    producer_name,
)
from messaging.broker.core.dead_letters.moves import Move, next_sequence_id, parts_of
from messaging.broker.core.diagnosis.trace import DeliveryEvent
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.dead_letters.parts import DeadLetterParts, select, wanted_of
from messaging.broker.runtime.dead_letters.targets import MoveTarget, MoveTargets
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.subscriptions.dead_letter_state import save
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError, NotReady, StorageFailed, TopicNotFound
from messaging.fairness.turns import FairTurns
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import Position, StoreError

LOOP = "dead_letters"
log = structlog.get_logger("broker.dead_letters")

DEAD_LETTERED = DeliveryEvent.DEAD_LETTERED
MOVES_AT_ONCE = 4  # of all subscriptions
RETRY_S = 1.0  # how often what failed is looked at


class DeadLetterMoves:
    """`partitions` counts those of a topic; `authorize` raises `NotAuthorized`."""

    def __init__(
        self,
        targets: MoveTargets,
        partitions: Callable[[TopicName], Awaitable[int]],
        authorize: Callable[[Principal, Action, Resource], Awaitable[None]],
        memory: MemoryAccount,
        now_ms: Callable[[], int],
        background: BackgroundLoops,
        message_bytes_max: int,
    ) -> None:
        self._targets = targets
        self._partitions = partitions
        self._authorize = authorize
        self._now_ms = now_ms
        self._background = background
        self._parts = DeadLetterParts(memory, now_ms, message_bytes_max * UNPACKED_TIMES_MAX)
        self._turns = FairTurns(MOVES_AT_ONCE)  # a turn is one move: what has many waits between them for those that have few
        self._delayed: dict[Subscription, PersistentTopic] = {}  # to be tried again

    # --- what begins a move

    def due(self, topic: PersistentTopic, subscription: Subscription) -> None:
        """Entries of a subscription may be dead."""
        letters = subscription.dead_letters
        if letters is None or letters.moving or not subscription.state.redeliveries.dead:
            return
        if letters.retry_at_ms > self._now_ms():
            self._delayed[subscription] = topic
            return
        letters.moving = True
        self._background.spawn(self._move_all(topic, subscription, letters), f"dead letters of {topic.text}")

    def retry(self) -> None:
        """What failed a while ago, or could not be tried yet."""
        delayed, self._delayed = self._delayed, {}
        self._background.register(LOOP).each(delayed.items(), lambda arguments: self._retry(*arguments))

    def _retry(self, subscription: Subscription, topic: PersistentTopic) -> None:
        if topic.closed is None:
            self.due(topic, subscription)

    def recover(self, topic: Topic) -> None:
        """A topic was loaded: finds out whether the last moves of its subscriptions were made."""
        if not isinstance(topic, PersistentTopic):
            return
        for subscription in topic.subscriptions.table.values():
            letters = subscription.dead_letters
            if letters is not None and subscription.recovering:
                letters.moving = True
                self._background.spawn(self._recover(topic, subscription, letters), f"dead letters of {topic.text}")

    async def set_policy(
        self, topic: PersistentTopic, subscription: Subscription, *, max_redeliver_count: int, target: str, initial: str, owner: str
    ) -> None:
        """Durable when it returns. What was being moved under the former policy is finished first."""
        policy = DeadLetterPolicy(uuid.uuid4().hex, max_redeliver_count, target, owner, initial)
        await self._replace(topic, subscription, DeadLetterRecord(subscription.subscription_id, policy))
        self.due(topic, subscription)

    async def remove_policy(self, topic: PersistentTopic, subscription: Subscription) -> None:
        await self._replace(topic, subscription, None)

    async def _replace(self, topic: PersistentTopic, subscription: Subscription, record: DeadLetterRecord | None) -> None:
        former = subscription.dead_letters
        if former is not None and former.moving:
            raise NotReady(f"dead letters of subscription {subscription.name!r} are being moved: try again")
        if former is not None:
            await self._resolve_move(topic, subscription, former, give_up=True)
        letters = None if record is None else DeadLetters(record)
        if letters is not None:
            letters.moving = True  # until it is stored
        subscription.dead_letters = letters
        try:
            await save(topic)
        except BaseException:
            subscription.dead_letters = former
            raise
        if letters is not None:
            letters.moving = False
        topic.consumers.follow_dead_letters(subscription)

    # --- moving

    async def _move_all(self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters) -> None:
        targets: dict[str, MoveTarget] = {}
        try:
            async with self._turns.turn(topic.name.tenant):
                await self._resolve_move(topic, subscription, letters)
            while _current(topic, subscription, letters) and subscription.state.redeliveries.dead:
                async with self._turns.turn(topic.name.tenant):
                    await self._move(topic, subscription, letters, targets)
            if letters.record.move is not None and _current(topic, subscription, letters):
                await _end_move(topic, letters)
        except (MagnetarError, StoreError) as error:
            letters.failed(error.message if isinstance(error, MagnetarError) else str(error), self._now_ms())
            self._delayed[subscription] = topic
            log.warning("dead_letters.not_moved", topic=topic.text, subscription=subscription.name, error=letters.last_error)
        except Exception as error:  # of ours: it is tried again like any other failure
            self._background.register(LOOP).failed(error, topic=topic.text, subscription=subscription.name)
            letters.failed(f"{type(error).__name__}: {error}", self._now_ms())
            self._delayed[subscription] = topic
        finally:
            letters.moving = False
            for target in targets.values():
                target.close()
        self.due(topic, subscription)

    async def _move(
        self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters, targets: dict[str, MoveTarget]
    ) -> None:
        first = letters.record.sequence_id
        target = await self._target(topic, subscription, letters.policy, first, targets)
        entries = await select(topic, subscription)
        if not entries:
            return
        parts, counts = parts_of(entries, first), subscription.state.redeliveries.counts
        move = Move(
            first,
            tuple((entry.position.ledger_id, entry.position.entry_id) for entry in entries),
            target.text,
            await target.last(),
            parts if len(parts) > 1 else (),
            tuple(counts.of(entry.position) for entry in entries) if len(parts) > 1 else (),
        )
        letters.record = msgspec.structs.replace(letters.record, sequence_id=next_sequence_id(entries, first), move=move)
        await save(topic)
        await target.begin(letters.policy.policy_id, move, producer_name(letters.policy.policy_id))
        moved = await self._append(topic, subscription, letters, target, 0)
        if moved is not None:
            await topic.acknowledgements.acknowledge_entries(subscription, [entry.position for entry in entries], DEAD_LETTERED)
            letters.moved(moved, self._now_ms())

    async def _append(
        self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters, target: MoveTarget, begin: int
    ) -> int | None:
        """Appends the parts of the move that is written down, from `begin` on. Returns how many messages they are; None if it
        appended nothing: a consumer acknowledged some meanwhile, or somebody moved the subscription."""
        move = letters.record.move
        assert move is not None, "it is written down first"

        def unchanged(entries: list[DeadEntry]) -> bool:
            dead = subscription.state.redeliveries.is_dead
            changed = not all(dead(Position(*entry)) for entry in move.entries) or _bits_changed(subscription, entries)
            return _current(topic, subscription, letters) and not changed

        messages = 0
        for number, part in enumerate(move.all_parts[begin:], begin):
            wanted = wanted_of(move, number, subscription)
            still = unchanged if number == 0 else lambda entries: True  # what has begun is ended
            made = await self._parts.append(topic, subscription, letters.policy, target, part, wanted, still=still)
            if made is None:
                return None
            messages += made
        return messages

    async def _target(
        self,
        topic: PersistentTopic,
        subscription: Subscription,
        policy: DeadLetterPolicy,
        sequence_id: int,
        targets: dict[str, MoveTarget],
    ) -> MoveTarget:
        """The target, or one partition of it, attached on behalf of the owner."""
        name = await self._authorized(topic, subscription, policy)
        count = await self._partitions(name)
        if count:
            name = parse_topic(f"{policy.target}-partition-{sequence_id % count}")
        target = targets.get(str(name))
        if target is None or not target.attached:
            target = await self._targets.open(name)
            if policy.initial_subscription and not await target.has_subscription(policy.initial_subscription):
                resource = Resource(name.tenant, str(name.namespace), str(name), policy.initial_subscription)
                await self._authorize(Principal(policy.owner), Action.CONSUME, resource)
                await target.ensure_subscription(policy.initial_subscription)
            targets[str(name)] = target
            await target.attach(producer_name(policy.policy_id), Principal(policy.owner))
        return target

    async def _authorized(self, topic: PersistentTopic, subscription: Subscription, policy: DeadLetterPolicy) -> TopicName:
        """The target, if the owner of the policy may consume what is moved, and publish there."""
        name, owner = parse_topic(policy.target), Principal(policy.owner)
        await self._authorize(owner, Action.CONSUME, topic.resource(subscription.name))
        await self._authorize(owner, Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        return name

    # --- after a crash

    async def _recover(self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters) -> None:
        """Nothing is sent to consumers until it is known which entries are in the target."""
        try:
            resolve = partial(self._resolve_move, topic, subscription, letters, give_up=True)
            await self._background.until_done("recover_dead_letters", resolve)
        finally:
            letters.moving = False
        topic.consumers.resume(subscription)

    async def _resolve_move(
        self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters, *, give_up: bool = False
    ) -> None:
        """Ends the last move if it is not known how much of it was stored. What has begun is completed; `give_up`: where that is
        refused its entries are delivered again, and what the target has of them is incomplete and shown to nobody."""
        move = letters.record.move
        if move is None or not _current(topic, subscription, letters):
            return
        try:
            target = await self._targets.existing(parse_topic(move.target))
            policy_id = letters.policy.policy_id
            stored = await target.parts_stored(policy_id, move, producer_name(policy_id))
            if 0 < stored < len(move.all_parts):
                await self._complete(topic, subscription, letters, target, stored)
        except TopicNotFound:
            stored = 0  # it was deleted, and what it held with it
        except (NotReady, StorageFailed):
            raise
        except MagnetarError as error:
            if not give_up:
                raise
            log.warning("dead_letters.given_up", topic=topic.text, subscription=subscription.name, error=error.message)
            stored = 0
        if stored:
            await topic.acknowledgements.acknowledge_entries(
                subscription, [Position(*entry) for entry in move.entries], DEAD_LETTERED
            )
        await _end_move(topic, letters)

    async def _complete(
        self, topic: PersistentTopic, subscription: Subscription, letters: DeadLetters, target: MoveTarget, stored: int
    ) -> None:
        await self._authorized(topic, subscription, letters.policy)
        await target.attach(producer_name(letters.policy.policy_id), Principal(letters.policy.owner))
        try:
            await self._append(topic, subscription, letters, target, stored)
        finally:
            target.close()


async def _end_move(topic: PersistentTopic, letters: DeadLetters) -> None:
    letters.record = msgspec.structs.replace(letters.record, move=None)
    await save(topic)


def _current(topic: PersistentTopic, subscription: Subscription, letters: DeadLetters) -> bool:
    """Whether the policy is still the subscription's, and the subscription the topic's."""
    return topic.closed is None and topic.subscriptions.holds(subscription) and subscription.dead_letters is letters


def _bits_changed(subscription: Subscription, entries: list[DeadEntry]) -> bool:
    return any(subscription.cursor.batches.bits(entry.position) != entry.open_bits for entry in entries)
