"""Clients that were refused because of their schema, by topic: for a while, as most do not try again by themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName

KEPT_MS = 600_000
TOPICS_MAX = 100  # of one tenant; the one that was refused least recently is forgotten
SENTENCE_LENGTH_MAX = 500


class SchemaRefusal(NamedTuple):
    name: TopicName
    first_ms: int
    last_ms: int
    times: int
    sentence: str


class SchemaRefusals:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._tenants: dict[str, OrderedDict[TopicName, SchemaRefusal]] = {}

    def refused(self, name: TopicName, sentence: str) -> None:
        base, now_ms = name.base, self._now_ms()
        topics = self._tenants.setdefault(name.tenant, OrderedDict())
        earlier = topics.pop(base, None)
        if earlier is None or now_ms - earlier.last_ms >= KEPT_MS:
            earlier = SchemaRefusal(base, now_ms, now_ms, 0, "")
        topics[base] = SchemaRefusal(base, earlier.first_ms, now_ms, earlier.times + 1, sentence[:SENTENCE_LENGTH_MAX])
        while len(topics) > TOPICS_MAX:
            topics.popitem(last=False)

    def of(self, tenant: str) -> list[Problem]:
        topics, now_ms = self._tenants.get(tenant), self._now_ms()
        if topics is None:
            return []
        for base in [base for base, refusal in topics.items() if now_ms - refusal.last_ms >= KEPT_MS]:
            del topics[base]
        if not topics:
            del self._tenants[tenant]
        return [_problem(refusal) for refusal in topics.values()]

    def tenants(self) -> set[str]:
        return set(self._tenants)


def _problem(refusal: SchemaRefusal) -> Problem:
    name = refusal.name
    who = "1 client was" if refusal.times == 1 else f"{refusal.times:,} clients were"
    sentence = f"{who} refused. {refusal.sentence[:1].upper()}{refusal.sentence[1:].rstrip('.')}."
    return Problem(
        kind=Kind.SCHEMA_REFUSED,
        sentence=sentence,
        remedy="change the client's schema, or the topic's policies of schemas",
        since_ms=refusal.first_ms,
        tenant=name.tenant,
        namespace=str(name.namespace),
        topic=str(name),
    )
