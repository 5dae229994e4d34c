"""Tells loaded topics that their policies changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from messaging.broker.core.control_view import ControlView
from messaging.broker.runtime.topics.registry import Topics


class PolicyChanges:
    def __init__(self, topics: Topics, view: ControlView) -> None:
        self._topics = topics
        self._view = view
        self._of_tenants: dict[str, Mapping[str, Any]] = {}  # what topics follow, of tenants on which something is set

    def follow(self, changed: Iterable[tuple[str, str]]) -> None:
        """These entities (kind, key) of the view changed."""
        for kind, key in changed:
            if kind == "namespace":
                self._tell_namespace(key)
            elif kind == "topic":
                for topic in self._topics.loaded_with_policies_of(key):
                    topic.policies_changed()
            elif kind == "tenant":
                self._follow_tenant(key)

    def _follow_tenant(self, tenant: str) -> None:
        """Nearly every change of a tenant is one of its roles, which concerns no topic."""
        before, now = self._of_tenants.get(tenant, {}), self._view.policies_of_tenant(tenant)
        if before == now:
            return
        self._of_tenants[tenant] = now
        if not now:
            del self._of_tenants[tenant]
        for namespace in self._topics.namespaces_with_loaded(tenant):
            self._tell_namespace(namespace)

    def _tell_namespace(self, namespace: str) -> None:
        for topic in self._topics.loaded_of(namespace):
            topic.policies_changed()
