"""Lists of topics by pattern and hash: what the commands say by which clients follow a pattern."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from urllib.parse import urlsplit

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.world import Outcome, World, topic_path
from tests.support.clients.raw_client import RawClient

C = pb.Command
MATCH_NOTHING = ("", " ", "|", "$^", "persistent://public/default/", "[^\\s\\S]")
# Names do not change from run to run, so that hashes do not. Each scenario has its own, as they run side by side.
PATTERNS = (
    "persistent://public/default/L-.*",
    "public/default/L-.*",
    "persistent://public/default/L-a",
    "persistent://public/default/L-[ab]",
    "persistent://public/default/L-(a|parts)",
    "persistent://public/default/L-parts-partition-1",
    "persistent://public/default/L-PARTS.*",
    "non-persistent://public/default/L-.*",
    "persistent://public/default/L",
    "persistent://public/other/L-.*",
)


class _Listed:
    """Topics a and b, and parts with two partitions, whose names begin with `local`."""

    def __init__(self, w: World, local: str) -> None:
        self.local = f"ls-{local}"
        self.prefix = f"persistent://public/default/{self.local}"
        self.w = w

    def make(self) -> None:
        self.forget()
        for name in "ab":
            self.w.send(f"{self.prefix}-{name}", "x")
        assert self.w.admin("PUT", f"{topic_path(self.prefix)}-parts/partitions", 2).status == 204

    def forget(self) -> None:
        for name in "abc":
            self.w.admin("DELETE", f"{topic_path(self.prefix)}-{name}?force=true")
        self.w.admin("DELETE", f"{topic_path(self.prefix)}-parts/partitions?force=true")

    def pattern(self, text: str) -> str:
        return text.replace("/L", f"/{self.local}")

    def names(self, topics: Iterable[str]) -> list[str]:
        return sorted(name.replace(self.local, "L") for name in topics if self.local in name)

    def shown(self, answer: Any) -> Outcome:
        return [self.names(answer.topics), answer.filtered, answer.changed, answer.topics_hash]


def _with(w: World, local: str, act: Callable[[RawClient, _Listed], Coroutine[Any, Any, Outcome]]) -> Outcome:
    listed = _Listed(w, local)

    async def run() -> Outcome:
        client = await RawClient.open(urlsplit(w.platform.broker_url).port or 6650)
        await client.connect(w.platform.token)
        try:
            return await act(client, listed)
        finally:
            await client.close()

    listed.make()
    try:
        return asyncio.run(run())
    finally:
        listed.forget()


async def _list(client: RawClient, pattern: str | None, known: str = "") -> Any:
    filtering = {"topics_pattern": pattern, "topics_hash": known} if pattern is not None else {}
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="public/default", mode=pb.GetTopicsOfNamespace.PERSISTENT, **filtering)
    return await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")


def by_pattern(w: World) -> Outcome:
    async def act(client: RawClient, listed: _Listed) -> Outcome:
        return {text: listed.shown(await _list(client, listed.pattern(text))) for text in PATTERNS}

    return _with(w, "p", act)


def by_a_pattern_that_matches_nothing(w: World) -> Outcome:
    async def act(client: RawClient, listed: _Listed) -> Outcome:
        return {text: listed.shown(await _list(client, text)) for text in MATCH_NOTHING}

    return _with(w, "n", act)


def by_pattern_and_hash(w: World) -> Outcome:
    """The list is left out while it is the one that the client knows."""

    async def act(client: RawClient, listed: _Listed) -> Outcome:
        pattern = listed.pattern(PATTERNS[0])
        first = await _list(client, pattern)
        again, wrong = await _list(client, pattern, first.topics_hash), await _list(client, pattern, "00000000")
        await client.producer(f"{listed.prefix}-c")
        later = await _list(client, pattern, first.topics_hash)
        return [listed.shown(answer) for answer in (first, again, wrong, later)]

    return _with(w, "h", act)


def without_a_pattern(w: World) -> Outcome:
    async def act(client: RawClient, listed: _Listed) -> Outcome:
        answer = await _list(client, None)
        return [listed.names(answer.topics), answer.filtered, answer.changed, bool(answer.topics_hash)]

    return _with(w, "a", act)


def a_watch(w: World) -> Outcome:
    """What it begins with, and what it says of a topic that comes."""

    async def act(client: RawClient, listed: _Listed) -> Outcome:
        client.say(C.WATCH_TOPIC_LIST, namespace="public/default", watcher_id=1, topics_pattern=listed.pattern(PATTERNS[0]))
        begun = await client.expect("WATCH_TOPIC_LIST_SUCCESS")
        client.say(C.PRODUCER, topic=f"{listed.prefix}-c", producer_id=1)
        answers = [await client.next() for _ in range(2)]  # in any order
        (came,) = [answer.body for answer in answers if answer.name == "WATCH_TOPIC_UPDATE"]
        return [
            [listed.names(begun.topic), begun.topics_hash],
            [listed.names(came.new_topics), list(came.deleted_topics), came.topics_hash],
        ]

    return _with(w, "w", act)


def watches_that_match_nothing(w: World) -> Outcome:
    """What each begins with, and whether it says anything of a topic that comes."""

    async def act(client: RawClient, listed: _Listed) -> Outcome:
        begun = []
        for number, text in enumerate(MATCH_NOTHING):
            client.say(C.WATCH_TOPIC_LIST, namespace="public/default", watcher_id=number, topics_pattern=text)
            answer = await client.expect("WATCH_TOPIC_LIST_SUCCESS")
            begun.append([listed.names(answer.topic), answer.topics_hash])
        client.say(C.WATCH_TOPIC_LIST, namespace="public/default", watcher_id=99, topics_pattern=listed.pattern(PATTERNS[0]))
        await client.expect("WATCH_TOPIC_LIST_SUCCESS")
        client.say(C.PRODUCER, topic=f"{listed.prefix}-c", producer_id=1)
        answers = [await client.next() for _ in range(2)]  # in any order
        return [begun, [answer.body.watcher_id for answer in answers if answer.name == "WATCH_TOPIC_UPDATE"]]

    return _with(w, "wn", act)
