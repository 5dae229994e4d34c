"""One poller for all who watch the same topics of a namespace: asks the broker once a second while anybody watches, and not at all
while nobody does.

There are no queues: a `Feed` holds the newest state, and each watcher goes from the state that it sent last to the newest one at
its own pace. A browser that reads slowly skips states; it never holds memory here. Every change between two states is encoded
once and shared by all watchers that need it. Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import structlog

from admin_ui.live.state import LiveState, message_between
from messaging.adminrpc.topics import LiveAsked, NamespaceLive
from messaging.errors import MagnetarError

Poll = Callable[[LiveAsked], Awaitable[NamespaceLive]]
INTERVAL_S = 1.0
ANSWER_S = 3.0  # a broker that has not answered by then counts as away
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """What the web process knows: `state` is the newest answer or None; `away` says why the last poll failed, "" if it did not."""

    version: int = 0  # rises with every poll, whatever its outcome
    state: LiveState | None = None
    away: str = ""
    away_since_ms: int = 0  # our clock; 0 while the broker answers


class Feed:
    """Topics of one namespace while they are watched. Only `LiveHub` makes and ends feeds."""

    def __init__(self, asked: LiveAsked, poll: Poll, interval_s: float, now_ms: Callable[[], int]) -> None:
        self.asked = asked
        self.watchers = 0
        self.status = FeedStatus()
        self._poll = poll
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._changed = asyncio.Condition()
        self._encoded: dict[tuple[int, int], bytes] = {}
        self._task = asyncio.create_task(self._run(), name=f"live {asked.namespace}")

    async def after(self, version: int) -> FeedStatus:
        """The standing once it is later than `version`; waits for the next poll if need be."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.status.version > version)
            return self.status

    def encoded(self, base: LiveState | None, state: LiveState) -> bytes:
        """JSON of the message from `base` to `state`, made once however many watchers need it."""
        key = (-1 if base is None or not state.follows(base) else base.sequence, state.sequence)
        message = self._encoded.get(key)
        if message is None:
            message = self._encoded[key] = msgspec.json.encode(message_between(base, state))
        return message

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            status = await self._ask()
            async with self._changed:
                self.status = status
                self._encoded.clear()
                self._changed.notify_all()
            next_at = max(next_at + self._interval_s, loop.time())
            await asyncio.sleep(next_at - loop.time())

    async def _ask(self) -> FeedStatus:
        before = self.status
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._poll(self.asked)
        except TimeoutError:
            return self._gone(before, f"no response within {ANSWER_S:g} s")
        except MagnetarError as error:
            return self._gone(before, error.message)
        except Exception as error:
            log.exception("live_poll_failed", namespace=self.asked.namespace)
            return self._gone(before, type(error).__name__)
        return FeedStatus(before.version + 1, LiveState.from_answer(answer))

    def _gone(self, before: FeedStatus, why: str) -> FeedStatus:
        return FeedStatus(
            before.version + 1, before.state, why or "the broker cannot be reached", before.away_since_ms or self._now_ms()
        )


class LiveHub:
    """The feeds of this process, by what they ask for."""

    def __init__(
        self, poll: Poll, interval_s: float = INTERVAL_S, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._poll = poll
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._feeds: dict[bytes, Feed] = {}

    @property
    def namespaces(self) -> list[str]:
        """The namespaces polled now, each as often as something else is asked of it."""
        return sorted(feed.asked.namespace for feed in self._feeds.values())

    @asynccontextmanager
    async def watch(self, asked: LiveAsked) -> AsyncIterator[Feed]:
        """The feed of what is asked for; it polls from the first watcher's entry to the last one's exit."""
        key = msgspec.json.encode(asked)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(asked, self._poll, self._interval_s, self._now_ms)
        feed.watchers += 1
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                del self._feeds[key]
                await feed.stop()
