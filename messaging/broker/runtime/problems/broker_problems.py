"""Brokers that do not run, or cannot do their work, for whoever runs the platform.

Each tells of itself; of those that are away the first one that runs tells, for all.
"""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.owners import Owners
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem

UNREADY_MS = 10_000  # a database that answers again sooner was only busy


class BrokerProblems:
    """`ready`: whether this broker is, and why not."""

    def __init__(self, broker_id: str, owners: Owners, ready: Callable[[], tuple[bool, str]], now_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._owners = owners
        self._ready = ready
        self._now_ms = now_ms
        self._since_ms: dict[str, int] = {}  # by broker, since when it is seen to be so

    async def look(self) -> None:
        now_ms = self._now_ms()
        self._since_ms = {broker_id: self._since_ms.get(broker_id, now_ms) for broker_id in self._seen()}

    def _seen(self) -> list[str]:
        own = [] if self._ready()[0] else [self._broker_id]
        return [*own, *self._away()]

    def _away(self) -> list[str]:
        """Those that this broker tells of."""
        if not isinstance(self._owners, FleetMember) or not self._owners.renews:
            return []
        sessions = self._owners.owners.sessions.values()
        first = min((each.broker_id for each in sessions if each.serves), default="")
        return [each.broker_id for each in sessions if not each.live] if first == self._broker_id else []

    def problems(self) -> list[Problem]:
        is_ready, why = self._ready()
        found = [
            self._problem(
                broker_id,
                sentence=f"Broker {broker_id} does not run: it has not renewed its session.",
                remedy="start it, or forget it, if it is gone for good",
            )
            for broker_id in self._away()
        ]
        since_ms = self._since_ms.get(self._broker_id)
        if not is_ready and since_ms is not None and self._now_ms() - since_ms >= UNREADY_MS:
            own_id = self._broker_id
            found.append(
                self._problem(
                    own_id, sentence=f"Broker {own_id} is not ready: {why}.", remedy="look at what it needs, and at its log"
                )
            )
        return found

    def _problem(self, broker_id: str, *, sentence: str, remedy: str) -> Problem:
        return Problem(
            kind=Kind.PROCESS_DOWN, sentence=sentence, remedy=remedy, since_ms=self._since_ms.get(broker_id), id=broker_id
        )
