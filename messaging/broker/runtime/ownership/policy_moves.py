"""Moves bundles when isolation policies change, as far as each policy asks for it.

Every broker does so for its own bundles, from its copy of the feed: nobody has to be told, and nothing is forgotten if whoever
changed the policy is gone. What is not where it may be is tried again for a while, since a move may have been under way when the
policy changed. A namespace that no broker may have any more is released, and waits: isolation comes before availability.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from messaging.broker.core.control.placement_view import PlacementView
from messaging.broker.core.ownership.placement import candidate
from messaging.broker.runtime.ownership.bundle_moves import NOTICES_MAX, BundleMoves
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.errors import Conflict, NotReady
from messaging.policies.isolation import Expressions, Isolation
from messaging.storage.ledger_store import StoreError
from messaging.storage.ownership import OwnershipRow

log = structlog.get_logger("broker.ownership")

LOOK_S = 1.0
AGAIN_S = 60.0  # after a change; longer than a move may take


class _Change:
    """Of one policy. `whole`: all its bundles move once, wherever they are."""

    def __init__(self, policies: list[Isolation], whole: bool, until_s: float) -> None:
        self._namespaces = [Expressions(each.namespaces) for each in policies]
        self.whole = whole
        self.until_s = until_s

    def concerns(self, namespace: str) -> bool:
        return any(each.match(namespace) for each in self._namespaces)


class PolicyMoves:
    """`now_s` never goes back."""

    def __init__(
        self, member: SharedMember, moves: BundleMoves, view: PlacementView, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._member = member
        self._moves = moves
        self._view = view
        self._now_s = now_s
        self._known = dict(view.isolation.policies)
        self._changes: list[_Change] = []

    def follow(self, changed: Iterable[tuple[str, str]]) -> None:
        """These entities (kind, key) of the feed changed. A policy that is deleted moves nothing, as in Pulsar: whatever it kept
        together may stay where it is."""
        for kind, name in changed:
            if kind == "isolation":
                before, after = self._known.pop(name, None), self._view.isolation.policies.get(name)
                if after is None:
                    continue
                self._known[name] = after
                if after.unload_scope != "none":
                    policies = [each for each in (before, after) if each is not None]
                    self._changes.append(_Change(policies, after.unload_scope == "all_matching", self._now_s() + AGAIN_S))

    async def look(self) -> None:
        if not self._changes:
            return
        changes = list(self._changes)
        wholes = [each for each in changes if each.whole]
        moving: list[OwnershipRow] = []
        for row in self._moves.rows():
            namespace = row.bundle.namespace
            if any(each.concerns(namespace) for each in wholes) or (
                any(each.concerns(namespace) for each in changes) and not self._is_right(namespace)
            ):
                moving.append(row)
        for each in wholes:
            each.whole = False
        rows = iter(moving)
        await asyncio.gather(*(self._give_some(rows) for _ in range(min(NOTICES_MAX, len(moving)))))
        now_s = self._now_s()
        self._changes = [each for each in self._changes if each.whole or now_s < each.until_s]

    def _is_right(self, namespace: str) -> bool:
        return self._member.rules.permits(namespace, self._member.broker_id)

    async def _give_some(self, rows: Iterable[OwnershipRow]) -> None:
        for row in rows:
            await self._give(row)

    async def _give(self, row: OwnershipRow) -> None:
        """To where it may be, which may be here."""
        member, namespace = self._member, row.bundle.namespace
        takers = [each.broker_id for each in member.owners.sessions.values() if each.takes]
        allowed = member.rules.allowed(namespace, takers)
        taker = candidate(row.bundle, allowed, member.owners)
        if taker is None:
            log.error("bundle.nowhere_allowed", bundle=str(row.bundle), why=member.rules.why_nobody(namespace))
        try:
            await self._moves.give(row.bundle, taker or "")
        except (Conflict, NotReady, StoreError) as error:
            log.warning("bundle.not_isolated", bundle=str(row.bundle), to_broker_id=taker or "", error=str(error))
