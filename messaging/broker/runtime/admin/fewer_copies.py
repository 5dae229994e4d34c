"""What is published now and gets fewer copies than it should, because too few bookies answer: which ledgers, and whose topics."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem, rank
from messaging.storage.bookie_store import BookieStore

REMEDY = "whoever runs the platform has to start bookies: runbook MagnetarTooFewBookies"


def degraded_since_ms(broker: Broker) -> dict[int, int]:
    """Ids of ledgers, and since when (milliseconds since 1970). None where messages are not on bookies."""
    store = broker.storage.ledgers
    if not isinstance(store, BookieStore):
        return {}
    now_ms = broker.now_ms()
    return {ledger_id: now_ms - int(1000 * for_s) for ledger_id, for_s in store.degraded_for_s().items()}


async def problems_of_copies(broker: Broker, slices: TurnSlices) -> dict[str, list[Problem]]:
    """By tenant, one of each namespace with such topics. Walks over the loaded topics, but only where there are such ledgers."""
    since = degraded_since_ms(broker)
    topics: dict[str, list[int]] = {}
    for topic in list(broker.topics) if since else ():
        await slices.spend(1)
        since_ms = since.get(topic.ledger.writing_to)
        if since_ms is not None:
            topics.setdefault(str(topic.name.namespace), []).append(since_ms)
    found: dict[str, list[Problem]] = {}
    for namespace, since_times in topics.items():
        tenant, count = namespace.partition("/")[0], len(since_times)
        problem = Problem(
            kind=Kind.FEWER_COPIES,
            sentence=_sentence(count),
            topics=count,
            remedy=REMEDY,
            since_ms=min(since_times),
            tenant=tenant,
            namespace=namespace,
        )
        found.setdefault(tenant, []).append(problem)
    return found


def together(problems: Iterable[Problem]) -> list[Problem]:
    """Of several brokers, in any order: each namespace once."""
    found, few = list[Problem](), dict[str, Problem]()
    for each in problems:
        if each.kind != Kind.FEWER_COPIES:
            found.append(each)
        elif (other := few.get(each.namespace)) is None:
            few[each.namespace] = each
        else:
            topics, since = each.topics + other.topics, [at for at in (each.since_ms, other.since_ms) if at is not None]
            few[each.namespace] = replace(other, sentence=_sentence(topics), topics=topics, since_ms=min(since, default=None))
    return [*found, *few.values()]


def _sentence(topics: int) -> str:
    return f"Topics whose messages get fewer copies than they should, because too few bookies answer: {topics:,}."


def problems_of_topic(broker: Broker, topic: Topic) -> list[Problem]:
    """What is wrong with a loaded topic itself now, in order: that it gets fewer copies is told of its namespace in lists."""
    found, since_ms = broker.problems.of_topic(topic), degraded_since_ms(broker).get(topic.ledger.writing_to)
    if since_ms is None:
        return found
    name = topic.name
    few = Problem(
        kind=Kind.FEWER_COPIES,
        sentence="What is published here gets fewer copies than it should, because too few bookies answer.",
        remedy=REMEDY,
        since_ms=since_ms,
        tenant=name.tenant,
        namespace=str(name.namespace),
        topic=topic.text,
    )
    return sorted([*found, few], key=rank)
