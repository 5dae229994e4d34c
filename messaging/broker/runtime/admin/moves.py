"""Admin RPC: moves of dead letters to a topic of this broker, for the broker of their source."""

from __future__ import annotations

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import MOVES_APPEND, MOVES_BEGIN, MOVES_OPEN, MOVES_STORED
from messaging.adminrpc.moves import MoveAppend, MoveOpen, MovePlace, MovePlan, MoveStored
from messaging.broker.core.dead_letters.moves import Move, Part
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.dead_letters.incoming_blocks import IncomingBlocks
from messaging.broker.runtime.dead_letters.targets import MoveTarget
from messaging.clock import boottime_ms
from messaging.errors import NotReady
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.names import parse_topic


class MoveHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pieces = IncomingBlocks(broker.memory_limiter.egress)

    @answers(MOVES_OPEN)
    async def open(self, request: MoveOpen) -> MovePlace:
        name, targets = parse_topic(request.topic), self._broker.move_targets
        target = await (targets.open(name) if request.create else targets.existing(name))
        if request.subscription:
            await target.ensure_subscription(request.subscription)
        return await _place(target)

    @answers(MOVES_BEGIN)
    async def begin(self, request: MovePlan) -> Empty:
        target = await self._broker.move_targets.existing(parse_topic(request.topic))
        await target.begin(request.job, _move(request), request.producer)
        return Empty()

    @answers(MOVES_STORED)
    async def stored(self, request: MovePlan) -> MoveStored:
        target = await self._broker.move_targets.existing(parse_topic(request.topic))
        return MoveStored(parts=await target.parts_stored(request.job, _move(request), request.producer))

    @answers(MOVES_APPEND)
    async def append(self, request: MoveAppend) -> MovePlace:
        name, owner = parse_topic(request.topic), Principal(request.owner)
        await self._broker.authorize(owner, Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        target = await self._broker.move_targets.existing(name)
        block = self._pieces.add(request.attempt, name.tenant, request.at, request.size, request.piece)
        if block is None:
            return await _place(target)
        await target.attach(request.producer, owner)
        try:
            if boottime_ms() >= request.waited_until_ms:  # the caller has looked what is stored, or is about to
                raise NotReady("what was to be moved came too late: it is moved again")
            await target.append([block], request.job, request.sequence_id)
        finally:
            target.close()
        return await _place(target)


async def _place(target: MoveTarget) -> MovePlace:
    last = await target.last()
    return MovePlace(ledger_id=last.ledger_id, entry_id=last.entry_id)


def _move(request: MovePlan) -> Move:
    parts = tuple(Part(0, sequence_id) for sequence_id in request.parts)
    return Move(request.sequence_id, (), request.topic, (request.ledger_id, request.entry_id), parts)
