"""Ends non-persistent topics that nobody uses any more, so that their memory is free; nothing of them is stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from messaging.broker.core.maintenance.inactivity import non_persistent_kept_ms
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import NotReady
from messaging.protocol.names import TopicName

LOOK_S = 1.0
LOOKED_AT_MAX = 2_000  # topics a second


class NonPersistentTopics:
    """`policy`: the value of a policy that is in force for a topic. `unload` ends one."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        policy: Callable[[str, TopicName], Any],
        unload: Callable[[TopicName, NotReady], Awaitable[None]],
    ) -> None:
        self._now_ms = now_ms
        self._policy = policy
        self._unload = unload
        self._topics: deque[tuple[Topic, int]] = deque()  # with the time when each was last found in use

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Topic]:
        """Those that are loaded."""
        return (topic for topic, _ in list(self._topics) if topic.closed is None)

    def add(self, topic: Topic) -> None:
        """A topic was loaded."""
        if not topic.keeps_messages:
            self._topics.append((topic, self._now_ms()))

    async def look(self) -> None:
        """Looks at some of the topics, at each in its turn."""
        now_ms = self._now_ms()
        for _ in range(min(len(self._topics), LOOKED_AT_MAX)):
            topic, used_ms = self._topics[0]
            self._topics.rotate(-1)  # whatever fails now is tried again after the others
            if topic.closed is not None:
                self._topics.pop()
            elif topic.used:
                self._topics[-1] = topic, now_ms
            elif now_ms - used_ms >= self._kept_ms(topic):
                await self._unload(topic.name, NotReady(f"topic {topic.text} was unloaded because nobody used it"))

    def _kept_ms(self, topic: Topic) -> int:
        return non_persistent_kept_ms(lambda policy: self._policy(policy, topic.name))
