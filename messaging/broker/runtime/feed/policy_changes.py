"""Tells loaded topics that their policies changed: in slices, because a namespace may have thousands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic

TOPIC_COST = 200  # of one topic, in units of `core/turns/command_costs.py`
SUBSCRIPTION_COST = 8
TOLD_AT_ONCE = 16  # topics that are told before `follow` returns


class TenantTerms(NamedTuple):
    """What topics follow of their tenant. `stopped`: why its producers are refused."""

    policies: Mapping[str, Any]
    stopped: str


class PolicyChanges:
    def __init__(self, topics: Topics, view: ControlView) -> None:
        self._topics = topics
        self._view = view
        self._of_tenants: dict[str, TenantTerms] = {}  # what topics follow, of tenants that have changed since the start
        self._waiting: dict[Topic, None] = {}
        self._all_told = asyncio.Event()
        self._all_told.set()

    def follow(self, changed: Iterable[tuple[str, str]]) -> None:
        """These entities (kind, key) of the view changed. Topics are told in turn; `wait_until_told` waits for that."""
        told: dict[Topic, None] = {}
        for kind, key in changed:
            if kind in ("namespace", "recycled"):
                told |= dict.fromkeys(self._topics.loaded_of(key))
            elif kind == "topic":
                told |= dict.fromkeys(self._topics.loaded_with_policies_of(key))
            elif kind == "broker":
                told |= dict.fromkeys(self._topics.loaded.values())
            elif kind == "tenant":
                for namespace in self._namespaces_to_tell(key):
                    told |= dict.fromkeys(self._topics.loaded_of(namespace))
        recycled = self._view.recycled  # their topics stay as they are: no policies are in force for them
        turns = self._topics.services.loops.dispatch_turns
        for number, topic in enumerate(topic for topic in told if not recycled or str(topic.name.namespace) not in recycled):
            if number < TOLD_AT_ONCE:
                self._tell(topic)
            else:
                self._waiting[topic] = None
                self._all_told.clear()
                turns.wait(topic.name.tenant, PolicyTurn(self, topic))

    async def wait_until_told(self) -> None:
        """Returns when the policies of now, or newer ones, are in force for all loaded topics."""
        await self._all_told.wait()

    def tell(self, topic: Topic) -> int:
        """Its turn has come. Returns the cost."""
        del self._waiting[topic]
        try:
            self._tell(topic)
        finally:
            if not self._waiting:
                self._all_told.set()
        return TOPIC_COST + SUBSCRIPTION_COST * len(topic.subscriptions.table)

    def _tell(self, topic: Topic) -> None:
        """One that raises keeps neither the others nor the feed from going on."""
        if topic.closed is None and str(topic.name.namespace) not in self._view.recycled:
            with topic.services.loops.dispatching.guard(topic=topic.text):
                topic.policies_changed()

    def _namespaces_to_tell(self, tenant: str) -> list[str]:
        """Nearly every change of a tenant is one of its roles, which concerns no topic."""
        now = TenantTerms(self._view.policies_of_tenant(tenant), self._view.publishing_stopped(tenant))
        if self._of_tenants.get(tenant) == now:
            return []
        self._of_tenants[tenant] = now
        if tenant not in self._view.tenants:
            del self._of_tenants[tenant]
        return self._topics.namespaces_with_loaded(tenant)


class PolicyTurn(NamedTuple):
    """A topic that has not been told yet. Instances for the same topic are equal."""

    changes: PolicyChanges
    topic: Topic

    def run(self) -> None:
        self.topic.services.loops.dispatch_turns.turns.left -= self.changes.tell(self.topic)
