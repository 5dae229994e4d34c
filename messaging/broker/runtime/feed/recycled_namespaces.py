"""Closes the topics of a namespace that went to the recycle bin: its clients are gone at once, then its topics leave memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from messaging.background import BackgroundLoops
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.topics.registry import Topics
from messaging.errors import NotFound

CLOSED_AT_ONCE = 16


class RecycledNamespaces:
    def __init__(self, topics: Topics, view: ControlView, background: BackgroundLoops) -> None:
        self._topics = topics
        self._view = view
        self._background = background

    def follow(self, changed: Iterable[tuple[str, str]]) -> None:
        """These entities (kind, key) of the view changed."""
        namespaces = [key for kind, key in changed if kind == "recycled" and key in self._view.recycled]
        if any(self._topics.loaded_of(namespace) for namespace in namespaces):
            self._background.spawn(self._close(namespaces), "close topics of recycled namespaces")

    async def _close(self, namespaces: list[str]) -> None:
        """What is missed here, maintenance closes."""
        for namespace in namespaces:
            why = NotFound(f"namespace {namespace} was deleted")
            topics = self._topics.loaded_of(namespace)
            for start in range(0, len(topics), CLOSED_AT_ONCE):
                if namespace not in self._view.recycled:  # it is back
                    break
                closing = [self._topics.unload(topic.name, why) for topic in topics[start : start + CLOSED_AT_ONCE]]
                await asyncio.gather(*closing, return_exceptions=True)
