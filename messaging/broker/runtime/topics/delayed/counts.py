"""How many delayed messages wait in the topics of each tenant: see `delayed/limits.py`."""

from __future__ import annotations

from collections import Counter

from messaging.broker.core.delayed.entry_sets import EntrySets


class DelayedCounts:
    def __init__(self) -> None:
        self.storing = Counter[str]()  # delayed messages of each tenant that are being stored, where they are limited
        self._loaded: dict[str, tuple[str, EntrySets]] = {}  # topic -> its tenant, and what is pending in it
        self._unloaded: dict[str, tuple[str, int]] = {}  # and how many waited when it was unloaded

    def loaded(self, topic: str, tenant: str, pending: EntrySets) -> None:
        """A topic has an index of delayed messages."""
        self._loaded[topic] = tenant, pending
        self._unloaded.pop(topic, None)

    def closed(self, topic: str, *, deleted: bool) -> None:
        if topic in self._loaded:
            tenant, pending = self._loaded.pop(topic)
            if pending and not deleted:
                self._unloaded[topic] = tenant, sum(map(len, pending.values()))

    def deleted(self, topic: str) -> None:
        self._unloaded.pop(topic, None)

    def waiting(self, tenant: str) -> int:
        """An entry counts as one message."""
        loaded = sum(sum(map(len, pending.values())) for whose, pending in self._loaded.values() if whose == tenant)
        return loaded + self.storing[tenant] + sum(count for whose, count in self._unloaded.values() if whose == tenant)
