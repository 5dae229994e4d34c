"""Where dead letters and redriven messages go: a topic here, or one of another broker, asked for the same things."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Protocol

from messaging.adminrpc.methods import MOVES_APPEND, MOVES_BEGIN, MOVES_OPEN, MOVES_STORED, SUBSCRIPTIONS_LIST
from messaging.adminrpc.moves import MoveAppend, MoveOpen, MovePlan
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.dead_letters.moves import Move
from messaging.broker.runtime.dead_letters.incoming_blocks import PIECE_BYTES
from messaging.broker.runtime.dead_letters.producer import DeadLetterProducer, ensure_subscription
from messaging.broker.runtime.ownership.other_brokers import TIMEOUT_S, OtherBrokers
from messaging.broker.runtime.ownership.owners import Owners
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.clock import boottime_ms
from messaging.permissions.model import Principal
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position

OpenTopic = Callable[[TopicName], Awaitable[PersistentTopic]]


class MoveTarget(Protocol):
    """`mover`: a dead-letter policy, or a redrive job; `producer`: its name as a producer. All raise a `MagnetarError`."""

    @property
    def text(self) -> str: ...

    @property
    def attached(self) -> bool:
        """Whether `attach` has succeeded, and nothing has ended it."""

    async def has_subscription(self, name: str) -> bool: ...

    async def ensure_subscription(self, name: str) -> None:
        """From the beginning, so that nothing is lost before somebody subscribes. Raises `SubscriptionNotFound`."""

    async def attach(self, producer: str, owner: Principal) -> None:
        """From now on `append` publishes on behalf of the owner."""

    async def last(self) -> Position:
        """Of what it has."""

    async def begin(self, mover: str, move: Move, producer: str) -> None:
        """The parts of `move` are about to be appended. Durable when it returns."""

    async def parts_stored(self, mover: str, move: Move, producer: str) -> int:
        """How many parts it has: the first ones. What an earlier call may still be storing is waited for."""

    async def append(self, frames: list[bytes], mover: str, sequence_id: int) -> None:
        """Returns when they are durable, as one block that names the move."""

    def close(self) -> None: ...


class TopicHere:
    """Implements `MoveTarget`."""

    def __init__(self, topic: PersistentTopic, now_ms: Callable[[], int]) -> None:
        self.topic = topic
        self._now_ms = now_ms
        self._producer: DeadLetterProducer | None = None

    @property
    def text(self) -> str:
        return self.topic.text

    @property
    def attached(self) -> bool:
        return self._producer is not None and self._producer.open

    async def has_subscription(self, name: str) -> bool:
        return name in self.topic.subscriptions.table

    async def ensure_subscription(self, name: str) -> None:
        await ensure_subscription(self.topic, name)

    async def attach(self, producer: str, owner: Principal) -> None:
        await self.topic.writable()
        self._producer = DeadLetterProducer(self.topic, producer, owner, self._now_ms())

    async def last(self) -> Position:
        return self.topic.ledger_list.last

    async def begin(self, mover: str, move: Move, producer: str) -> None:
        await self.topic.stored_moves.begin(mover, move, producer)

    async def parts_stored(self, mover: str, move: Move, producer: str) -> int:
        await self.topic.publisher.wait_for_pending()
        return await self.topic.stored_moves.parts_stored(mover, move, producer)

    async def append(self, frames: list[bytes], mover: str, sequence_id: int) -> None:
        assert self._producer is not None, "it was attached"
        await self._producer.publish(frames, mover, sequence_id)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()


class TopicElsewhere:
    """Implements `MoveTarget`. The owner's permission was checked by this broker, and is by the other one with each block."""

    def __init__(self, name: TopicName, rpc_url: str, others: OtherBrokers, last: Position) -> None:
        self._name = name
        self._rpc_url = rpc_url
        self._others = others
        self._last = last
        self._producer, self._owner = "", ""

    @property
    def text(self) -> str:
        return str(self._name)

    @property
    def attached(self) -> bool:
        return bool(self._producer)

    async def has_subscription(self, name: str) -> bool:
        listed = await self._others.call(self._rpc_url, SUBSCRIPTIONS_LIST, TopicRef(topic=self.text), self._name.tenant)
        return name in listed.subscriptions

    async def ensure_subscription(self, name: str) -> None:
        request = MoveOpen(topic=self.text, create=False, subscription=name)
        await self._others.call(self._rpc_url, MOVES_OPEN, request, self._name.tenant)

    async def attach(self, producer: str, owner: Principal) -> None:
        self._producer, self._owner = producer, owner.role

    async def last(self) -> Position:
        return self._last

    async def begin(self, mover: str, move: Move, producer: str) -> None:
        await self._others.call(self._rpc_url, MOVES_BEGIN, self._plan(mover, move, producer), self._name.tenant)

    async def parts_stored(self, mover: str, move: Move, producer: str) -> int:
        plan = self._plan(mover, move, producer)
        return (await self._others.call(self._rpc_url, MOVES_STORED, plan, self._name.tenant)).parts

    async def append(self, frames: list[bytes], mover: str, sequence_id: int) -> None:
        block, attempt = b"".join(frames), uuid.uuid4().hex
        for at in range(0, len(block), PIECE_BYTES):
            request = MoveAppend(
                topic=self.text,
                job=mover,
                producer=self._producer,
                owner=self._owner,
                sequence_id=sequence_id,
                attempt=attempt,
                at=at,
                size=len(block),
                piece=block[at : at + PIECE_BYTES],
                waited_until_ms=boottime_ms() + int(TIMEOUT_S * 1000),
            )
            answer = await self._others.call(self._rpc_url, MOVES_APPEND, request, self._name.tenant)
            self._last = Position(answer.ledger_id, answer.entry_id)

    def close(self) -> None:
        """There is no producer between the calls."""

    def _plan(self, mover: str, move: Move, producer: str) -> MovePlan:
        return MovePlan(
            topic=self.text,
            job=mover,
            producer=producer,
            sequence_id=move.sequence_id,
            parts=[part.sequence_id for part in move.all_parts],
            ledger_id=move.after[0],
            entry_id=move.after[1],
        )


class MoveTargets:
    """Opens them. `open_topic` makes a topic where that is allowed; `existing` raises `TopicNotFound`."""

    def __init__(
        self,
        owners: Owners,
        others: OtherBrokers | None,
        open_topic: OpenTopic,
        existing: OpenTopic,
        now_ms: Callable[[], int],
    ) -> None:
        self._owners = owners
        self._others = others
        self._open_topic = open_topic
        self._existing = existing
        self._now_ms = now_ms

    async def open(self, name: TopicName) -> MoveTarget:
        """Raises what opening a topic raises."""
        return await self._ask(name, create=True) or TopicHere(await self._open_topic(name), self._now_ms)

    async def existing(self, name: TopicName) -> MoveTarget:
        """Raises `TopicNotFound`."""
        return await self._ask(name, create=False) or TopicHere(await self._existing(name), self._now_ms)

    async def _ask(self, name: TopicName, *, create: bool) -> MoveTarget | None:
        place = await self._owners.where(name)
        if place is None or self._others is None:
            return None
        rpc_url, request = place.addresses["rpc_url"], MoveOpen(topic=str(name), create=create)
        answer = await self._others.call(rpc_url, MOVES_OPEN, request, name.tenant)
        return TopicElsewhere(name, rpc_url, self._others, Position(answer.ledger_id, answer.entry_id))
