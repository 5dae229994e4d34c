"""Clients that were refused because of their schema, by topic: for a while, as most do not try again by themselves, and until
those that were refused got through with another schema.

They are gone with their topic, namespace or tenant: another tenant of that name is told nothing of the former one's topics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from messaging.broker.runtime.problems.tenant_counts import TenantCounts
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName
from messaging.storage.meta_store import partitioned_name, tenant_of

KEPT_MS = 600_000
TOPICS_MAX = 100  # of one tenant; the one that was refused least recently is forgotten
PLATFORM_TOPICS_MAX = 5_000  # of all; then of the tenant that has most
CLIENTS_MAX = 20  # of one topic that are known again; with more, what is told stays for its while
SENTENCE_LENGTH_MAX = 500


class SchemaRefusal(NamedTuple):
    """`owner`: the uid of the tenant whose topic it was. `clients`: those that did not get through since."""

    name: TopicName
    owner: str
    first_ms: int
    last_ms: int
    times: int
    sentence: str
    clients: frozenset[str]


class SchemaRefusals:
    def __init__(self, now_ms: Callable[[], int], owner_of: Callable[[str], str | None]) -> None:
        """`owner_of`: the uid of the tenant that a namespace belongs to; None: there is no such namespace."""
        self._now_ms = now_ms
        self._owner_of = owner_of
        self._tenants: dict[str, OrderedDict[str, SchemaRefusal]] = {}  # by the topic's base name; never empty
        self._counts = TenantCounts()

    # --- changes

    def judged(self, name: TopicName, client: str, refusal: str) -> None:
        """The schema with which a client came was refused, or not: then `refusal` is "". `client`: as it is known again."""
        if refusal:
            self._refused(name, client, refusal)
        elif name.tenant in self._tenants:
            self._accepted(name, client)

    def _refused(self, name: TopicName, client: str, sentence: str) -> None:
        base, now_ms = name.base, self._now_ms()
        text, tenant, owner = str(base), name.tenant, self._owner_of(str(name.namespace))
        topics = self._tenants.get(tenant)
        earlier = None if topics is None else topics.get(text)
        if earlier is not None:
            self._drop(tenant, text)
            if earlier.owner != owner or now_ms - earlier.last_ms >= KEPT_MS:
                earlier = None
        if owner is None:
            return
        first_ms, times, others = (
            (now_ms, 0, frozenset[str]()) if earlier is None else (earlier.first_ms, earlier.times, earlier.clients)
        )
        clients = others if len(others) > CLIENTS_MAX else others | {client}
        refusal = SchemaRefusal(base, owner, first_ms, now_ms, times + 1, sentence[:SENTENCE_LENGTH_MAX], clients)
        self._tenants.setdefault(tenant, OrderedDict())[text] = refusal
        self._counts.add(tenant, 1)
        if self._counts.of(tenant) > TOPICS_MAX:
            self._drop(tenant, next(iter(self._tenants[tenant])))
        if self._counts.total > PLATFORM_TOPICS_MAX:
            largest, _ = self._counts.largest()
            self._drop(largest, next(iter(self._tenants[largest])))

    def _accepted(self, name: TopicName, client: str) -> None:
        text = str(name.base)
        refusal = self._tenants[name.tenant].get(text)
        if refusal is None or client not in refusal.clients or len(refusal.clients) > CLIENTS_MAX:
            return
        if refusal.clients == {client}:
            self._drop(name.tenant, text)
        else:  # in its place: how long ago it was refused is as before
            self._tenants[name.tenant][text] = refusal._replace(clients=refusal.clients - {client})

    def topic_deleted(self, topic: str) -> None:
        """Of a topic, a partition or a partitioned topic."""
        tenant, text = tenant_of(topic), partitioned_name(topic)
        if text in self._tenants.get(tenant, {}):
            self._drop(tenant, text)

    def namespace_deleted(self, namespace: str) -> None:
        tenant = namespace.partition("/")[0]
        for text, refusal in list(self._tenants.get(tenant, {}).items()):
            if str(refusal.name.namespace) == namespace:
                self._drop(tenant, text)

    def follow(self, changed: Iterable[tuple[str, str]]) -> None:
        """These (kind, key) of the control plane changed: what belonged to those that are gone is forgotten."""
        for tenant in {key.partition("/")[0] for kind, key in changed if kind in ("tenant", "namespace")} & self._tenants.keys():
            self._forget_old(tenant)

    def _forget_old(self, tenant: str) -> None:
        for text, refusal in list(self._tenants.get(tenant, {}).items()):
            if not self._is_current(refusal):
                self._drop(tenant, text)

    def _is_current(self, refusal: SchemaRefusal) -> bool:
        is_recent = self._now_ms() - refusal.last_ms < KEPT_MS
        return is_recent and self._owner_of(str(refusal.name.namespace)) == refusal.owner

    def _drop(self, tenant: str, text: str) -> None:
        topics = self._tenants[tenant]
        del topics[text]
        self._counts.add(tenant, -1)
        if not topics:
            del self._tenants[tenant]

    # --- asking

    def of(self, tenant: str) -> list[Problem]:
        self._forget_old(tenant)
        return [_problem(refusal) for refusal in self._tenants.get(tenant, {}).values()]

    def is_refused(self, topic: str) -> bool:
        return self.refusal_of(topic) is not None

    def refusal_of(self, topic: str) -> Problem | None:
        """Of clients of this topic, or of the partitioned topic that this is a partition of."""
        topics = self._tenants.get(tenant_of(topic))
        refusal = None if topics is None else topics.get(partitioned_name(topic))
        return _problem(refusal) if refusal is not None and self._is_current(refusal) else None

    def count(self, tenant: str) -> int:
        return self._counts.of(tenant)

    def tenants(self) -> set[str]:
        return set(self._tenants)


def _problem(refusal: SchemaRefusal) -> Problem:
    name = refusal.name
    who = "A client was refused." if refusal.times == 1 else f"Clients were refused {refusal.times:,} times."
    why = f"{refusal.sentence[:1].upper()}{refusal.sentence[1:].rstrip('.')}"
    sentence = f"{who} {why}."
    return Problem(
        kind=Kind.SCHEMA_REFUSED,
        sentence=sentence,
        remedy="change the client's schema, or the topic's policies of schemas",
        since_ms=refusal.first_ms,
        tenant=name.tenant,
        namespace=str(name.namespace),
        topic=str(name),
    )
