"""One broker, the first by its id of those that run, asks all for the loads of their bundles and has some moved.

Two that believe they are the first do no harm: every move is a compare and set by its owner. What moved when is remembered here
alone: when another broker goes on with this, a bundle may move again sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from messaging.adminrpc.base import Answer, Method
from messaging.adminrpc.brokers import BrokerAsked
from messaging.adminrpc.bundles import BundleLoads, BundleMoved, LoadsAsked
from messaging.adminrpc.methods import BUNDLES_LOADS, BUNDLES_MOVE
from messaging.broker.core.ownership.balancing import AGAIN_MS, BundleMove, moves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.errors import MagnetarError
from messaging.protocol.bundles import bundle_from
from messaging.storage.ownership import NamespaceBundle

log = structlog.get_logger("broker.ownership")

LOOK_S = 10.0


class Balancer:
    """`ask`: calls a method of the admin RPC of the broker that the request names. `now_ms` never goes back."""

    def __init__(
        self, member: SharedMember, ask: Callable[[Method[Any, Any], BrokerAsked], Awaitable[Answer]], now_ms: Callable[[], int]
    ) -> None:
        self._member = member
        self._ask = ask
        self._now_ms = now_ms
        self._moved_ms: dict[NamespaceBundle, int] = {}

    async def look(self) -> None:
        takers = [each.broker_id for each in self._member.owners.sessions.values() if each.takes]
        if len(takers) < 2 or min(takers) != self._member.broker_id:
            return
        answers = await asyncio.gather(*map(self._loads, takers))
        loads = {broker_id: answer for broker_id, answer in zip(takers, answers, strict=True) if answer is not None}
        now_ms = self._now_ms()
        self._moved_ms = {bundle: moved for bundle, moved in self._moved_ms.items() if now_ms - moved < AGAIN_MS}
        await asyncio.gather(*map(self._move, moves(loads, self._moved_ms, now_ms, self._member.rules)))

    async def _loads(self, broker_id: str) -> dict[NamespaceBundle, float] | None:
        """None: it does not answer, and gets and gives nothing in this round."""
        try:
            answer = await self._ask(BUNDLES_LOADS, LoadsAsked(broker_id=broker_id))
        except MagnetarError:
            return None
        assert isinstance(answer, BundleLoads)
        return {NamespaceBundle(each.namespace, *bundle_from(each.bundle)): each.load for each in answer.bundles}

    async def _move(self, move: BundleMove) -> None:
        namespace, bundle = move.bundle.namespace, move.bundle.range_text
        self._moved_ms[move.bundle] = self._now_ms()
        try:
            await self._ask(
                BUNDLES_MOVE, BundleMoved(broker_id=move.giver, namespace=namespace, bundle=bundle, to_broker_id=move.taker)
            )
        except MagnetarError as error:
            log.warning("bundle.not_balanced", bundle=str(move.bundle), giver=move.giver, taker=move.taker, error=error.message)
        else:
            log.info("bundle.balanced", bundle=str(move.bundle), giver=move.giver, taker=move.taker)
