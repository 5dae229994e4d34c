"""The order of problems, whoever noticed them. Pure: facts in, a list out."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from messaging.problems.kinds import ORDER

_PARTITION = re.compile(r"(.+)-partition-\d{1,6}")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: one of `Kind`. `namespace` is tenant/namespace and `topic` a full name; parts that do not apply are empty.
    `since_ms`: milliseconds since 1970; None: unknown. `waiting`: entries that wait because of it. `partitions`: of a partitioned
    topic, how many of them have it; `topic` is then the partitioned one. `topics`: how many of a namespace have it. `target`: the
    topic that its dead letters go to. `id` tells it from others of its kind in the same place, where there may be several."""

    kind: str
    sentence: str
    remedy: str = ""
    since_ms: int | None = None
    tenant: str = ""
    namespace: str = ""
    topic: str = ""
    subscription: str = ""
    waiting: int = 0
    partitions: int = 0
    topics: int = 0
    target: str = ""
    id: str = ""


Rank = tuple[int, int, int, str, str]


def rank(problem: Problem) -> Rank:
    """The most urgent kind first; within it where most waits, and then what has lasted longest."""
    since_ms = problem.since_ms if problem.since_ms is not None else 1 << 62
    return ORDER.get(problem.kind, len(ORDER)), -problem.waiting, since_ms, problem.topic, problem.subscription


def ranked(problems: Iterable[Problem]) -> list[Problem]:
    """In order; what several partitions of a topic have alike is one problem, with the sentence of the worst of them."""
    groups: dict[tuple[str, str, str, str, str], list[Problem]] = {}
    for place, problem in enumerate(problems):
        match = _PARTITION.fullmatch(problem.topic)
        # Only partitions are grouped: of a tenant two alerts, say, are two problems.
        where = (match[1], problem.subscription, "") if match else (problem.topic, "", str(place))
        key = (problem.kind, *where, problem.id)
        groups.setdefault(key, []).append(problem)
    return sorted((_together(topic, group) for (_, topic, _, _, _), group in groups.items()), key=rank)


def _together(topic: str, group: list[Problem]) -> Problem:
    first = min(group, key=rank)
    if first.topic == topic:
        return first
    known = [problem.since_ms for problem in group if problem.since_ms is not None]
    return msgspec.structs.replace(
        first,
        topic=topic,
        partitions=len(group),
        waiting=sum(problem.waiting for problem in group),
        since_ms=min(known) if known else None,
    )
