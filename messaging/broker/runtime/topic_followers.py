"""Consumers by pattern in the broker's own process: they are told which topics a namespace gained and lost."""

from __future__ import annotations

from collections.abc import Callable

from messaging.fairness.turns import FairTurns
from messaging.protocol.names import TopicName

MATCHES_MAX = 2  # patterns that are matched at a time, one of each tenant

Tell = Callable[[TopicName, bool], None]


class TopicFollowers:
    """`turns`: for whoever looks at what it was told."""

    def __init__(self) -> None:
        self.turns = FairTurns(MATCHES_MAX, 1)
        self._by_namespace: dict[str, dict[Tell, None]] = {}

    @property
    def namespaces(self) -> list[str]:
        """Those that somebody follows."""
        return list(self._by_namespace)

    def follow(self, namespace: str, tell: Tell) -> None:
        """`tell` is called with each topic that is created or deleted, and whether it exists. It must not block or raise."""
        self._by_namespace.setdefault(namespace, {})[tell] = None

    def unfollow(self, namespace: str, tell: Tell) -> None:
        """Idempotent."""
        followers = self._by_namespace.get(namespace, {})
        followers.pop(tell, None)
        if not followers:
            self._by_namespace.pop(namespace, None)

    def list_changed(self, name: TopicName, exists: bool) -> None:
        """Costs nothing where nobody follows."""
        if self._by_namespace:
            for tell in list(self._by_namespace.get(str(name.namespace), ())):
                tell(name, exists)
