"""Lists of topics by pattern and hash: what the commands say by which clients follow a pattern."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from messaging.protocol import pulsar_pb2 as pb
from tests.compat.scenarios.world import Outcome, World, topic_path
from tests.support.raw_client import RawClient

C = pb.Command
_LOCAL = "fixed-listed"  # names do not change from run to run, so that hashes do not
_PREFIX = f"persistent://public/default/{_LOCAL}"
PATTERNS = (
    f"persistent://public/default/{_LOCAL}-.*",
    f"public/default/{_LOCAL}-.*",
    f"persistent://public/default/{_LOCAL}-a",
    f"persistent://public/default/{_LOCAL}-[ab]",
    f"persistent://public/default/{_LOCAL}-(a|parts)",
    f"persistent://public/default/{_LOCAL}-parts-partition-1",
    f"persistent://public/default/{_LOCAL}-PARTS.*",
    f"non-persistent://public/default/{_LOCAL}-.*",
    f"persistent://public/default/{_LOCAL}",
    f"persistent://public/other/{_LOCAL}-.*",
)


def _with(w: World, act: Callable[[RawClient], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Topics a and b, and parts with two partitions."""

    async def run() -> Outcome:
        client = await RawClient.open(urlsplit(w.platform.broker_url).port or 6650)
        await client.connect(w.platform.token)
        try:
            return await act(client)
        finally:
            await client.close()

    _forget(w)
    for name in "ab":
        w.send(f"{_PREFIX}-{name}", "x")
    assert w.admin("PUT", f"{topic_path(_PREFIX)}-parts/partitions", 2).status == 204
    try:
        return asyncio.run(run())
    finally:
        _forget(w)


def _forget(w: World) -> None:
    for name in "abc":
        w.admin("DELETE", f"{topic_path(_PREFIX)}-{name}?force=true")
    w.admin("DELETE", f"{topic_path(_PREFIX)}-parts/partitions?force=true")


async def _list(client: RawClient, pattern: str, known: str = "", mode: Any = pb.GetTopicsOfNamespace.PERSISTENT) -> Any:
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="public/default", mode=mode, topics_pattern=pattern, topics_hash=known)
    return await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")


def _shown(answer: Any) -> Outcome:
    names = sorted(name.replace(_LOCAL, "L") for name in answer.topics if _LOCAL in name)
    return [names, answer.filtered, answer.changed, answer.topics_hash]


def by_pattern(w: World) -> Outcome:
    async def act(client: RawClient) -> Outcome:
        return {pattern.replace(_LOCAL, "L"): _shown(await _list(client, pattern)) for pattern in PATTERNS}

    return _with(w, act)


def by_pattern_and_hash(w: World) -> Outcome:
    """The list is left out while it is the one that the client knows."""

    async def act(client: RawClient) -> Outcome:
        pattern = PATTERNS[0]
        first = await _list(client, pattern)
        again, wrong = await _list(client, pattern, first.topics_hash), await _list(client, pattern, "00000000")
        await client.producer(f"{_PREFIX}-c")
        later = await _list(client, pattern, first.topics_hash)
        return [_shown(one) for one in (first, again, wrong, later)]

    return _with(w, act)


def without_a_pattern(w: World) -> Outcome:
    async def act(client: RawClient) -> Outcome:
        answer = await _list(client, "")
        return [_shown(answer)[0], answer.filtered, answer.changed, bool(answer.topics_hash)]

    return _with(w, act)


def a_watch(w: World) -> Outcome:
    """What it begins with, and what it says of topics that come and go."""

    async def act(client: RawClient) -> Outcome:
        client.say(C.WATCH_TOPIC_LIST, namespace="public/default", watcher_id=1, topics_pattern=PATTERNS[0])
        begun = await client.expect("WATCH_TOPIC_LIST_SUCCESS")
        found: list[Outcome] = [[sorted(name.replace(_LOCAL, "L") for name in begun.topic), begun.topics_hash]]
        await client.producer(f"{_PREFIX}-c")
        came = await client.expect("WATCH_TOPIC_UPDATE")
        found.append([[name.replace(_LOCAL, "L") for name in came.new_topics], list(came.deleted_topics), came.topics_hash])
        return found

    return _with(w, act)
