"""The answers of several brokers as one: each about its own partitions of a topic, or about itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from messaging.adminrpc.base import Answer, Empty
from messaging.adminrpc.ceilings import CeilingsUsed
from messaging.adminrpc.changes import ChangesUnderWay
from messaging.adminrpc.clients import ClientsDisconnected, ClientsListed
from messaging.adminrpc.compaction import CompactionsDuePage
from messaging.adminrpc.feed import FeedVersion
from messaging.adminrpc.maintenance import MaintenanceResult
from messaging.adminrpc.methods import (
    CEILINGS_USED,
    CHANGES_LIST,
    CLIENTS_DISCONNECT,
    CLIENTS_LIST,
    COMPACTION_DUE,
    FEED_APPLY,
    FEED_PULL,
    HEALTH,
    NAMESPACES_LIVE,
    NAMESPACES_PURGE,
    POLICIES_PREVIEW,
    PROBLEMS_LIST,
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
    TOPICS_COMPACT,
    TOPICS_FIGURES,
    TOPICS_INTERNAL_INFO,
    TOPICS_LIST,
    TOPICS_MEMBERS,
    TOPICS_PAGE,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_RANKED,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_TRIM,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
    USAGE_FLUSH,
)
from messaging.adminrpc.policies import EFFECTS_MAX, PolicyPreviewAnswer
from messaging.adminrpc.problems import ProblemsFound
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    DeadLetterPolicyAnswer,
    Refused,
    SubscriptionMoved,
    SubscriptionNames,
    SubscriptionProperties,
)
from messaging.adminrpc.topics import (
    LiveTotals,
    NamespaceLive,
    Stats,
    TerminatedPartitions,
    TopicMembers,
    TopicNames,
    TopicsPage,
    TopicsRanked,
)
from messaging.adminrpc.usage import UsageFlushed
from messaging.broker.runtime.admin.fewer_copies import together
from messaging.broker.runtime.admin.stats.members import MemberSums
from messaging.broker.runtime.admin.stats.partitioned_stats import PartitionedStats
from messaging.broker.runtime.admin.stats.ranking import combined, in_order
from messaging.errors import Conflict, MagnetarError, SubscriptionNotFound
from messaging.problems.kinds import ORDER, Kind
from messaging.problems.order import rank
from messaging.protocol.names import parse_topic
from messaging.storage.meta_store import partitioned_name

Outcome: TypeAlias = Answer | MagnetarError
Merge: TypeAlias = Callable[[Sequence[Outcome]], Answer]

# Where it is done on other partitions, these say that there was nothing to do.
_NOTHING_TO_DO = (SubscriptionNotFound, Conflict)


def _answers(outcomes: Sequence[Outcome]) -> tuple[list[Any], MagnetarError | None]:
    """The answers, and why there are not more. Raises that where there is none."""
    answers = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, MagnetarError)]
    refused = next((error for error in errors if not isinstance(error, _NOTHING_TO_DO)), None)
    if not answers:
        raise refused or errors[0]
    return answers, refused


def _all(outcomes: Sequence[Outcome]) -> list[Any]:
    answers, refused = _answers(outcomes)
    if refused is not None:
        raise refused
    return answers


def empty(outcomes: Sequence[Outcome]) -> Empty:
    _all(outcomes)
    return Empty()


def moved(outcomes: Sequence[Outcome]) -> SubscriptionMoved:
    answers, refused = _answers(outcomes)
    places = {topic: move for answer in answers for topic, move in answer.moved.items()}
    shown = sorted(places, key=_partition)[:MOVED_SHOWN]
    acknowledged = {topic: acks for answer in answers for topic, acks in answer.acknowledged.items()}
    return SubscriptionMoved(
        moved={topic: places[topic] for topic in shown},
        acknowledged={topic: acknowledged[topic] for topic in shown if topic in acknowledged},
        backlog_entries=sum(answer.backlog_entries for answer in answers),
        skipped_entries=sum(answer.skipped_entries for answer in answers),
        again_entries=sum(answer.again_entries for answer in answers),
        consumers=sum(answer.consumers for answer in answers),
        refused=next((answer.refused for answer in answers if answer.refused is not None), None)
        or (None if refused is None else Refused(code=refused.code, message=refused.message)),
    )


def disconnected(outcomes: Sequence[Outcome]) -> ClientsDisconnected:
    answers = _all(outcomes)
    return ClientsDisconnected(
        producers=sum(answer.producers for answer in answers), consumers=sum(answer.consumers for answer in answers)
    )


def subscription_properties(outcomes: Sequence[Outcome]) -> SubscriptionProperties:
    return SubscriptionProperties(properties={key: value for answer in _all(outcomes) for key, value in answer.properties.items()})


def subscriptions(outcomes: Sequence[Outcome]) -> SubscriptionNames:
    return SubscriptionNames(subscriptions=sorted({name for answer in _all(outcomes) for name in answer.subscriptions}))


def dead_letter_policy(outcomes: Sequence[Outcome]) -> DeadLetterPolicyAnswer:
    answers = _all(outcomes)
    first = next((answer for answer in answers if answer.target), answers[0])
    return DeadLetterPolicyAnswer(
        max_redeliver_count=first.max_redeliver_count,
        target=first.target,
        initial_subscription=first.initial_subscription,
        owner=first.owner,
        waiting_entries=sum(answer.waiting_entries for answer in answers),
        moved_messages=sum(answer.moved_messages for answer in answers),
        last_error=next((answer.last_error for answer in answers if answer.last_error), ""),
    )


def terminated(outcomes: Sequence[Outcome]) -> TerminatedPartitions:
    last = {index: position for answer in _all(outcomes) for index, position in zip(answer.partitions, answer.last, strict=True)}
    return TerminatedPartitions(last=[last[index] for index in sorted(last)], partitions=sorted(last))


def _partitions(outcomes: Sequence[Outcome]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is beside the partitions in the first one, and the partitions in their order."""
    answers = _all(outcomes)
    parts = {name: figures for answer in answers for name, figures in answer.stats["partitions"].items()}
    beside = {key: value for key, value in answers[0].stats.items() if key != "partitions"}
    return beside, {name: parts[name] for name in sorted(parts, key=_partition)}


def partitions(outcomes: Sequence[Outcome]) -> Stats:
    beside, parts = _partitions(outcomes)
    if "metadata" in beside:
        beside["metadata"] = beside["metadata"] | {"partitions": len(parts)}
    return Stats(stats=beside | {"partitions": parts})


def partitioned_stats(outcomes: Sequence[Outcome]) -> Stats:
    sums = PartitionedStats()
    _, parts = _partitions(outcomes)
    for figures in parts.values():
        sums.add(figures)
    return Stats(stats=sums.total(parts))


def members(outcomes: Sequence[Outcome]) -> TopicMembers:
    answers = _all(outcomes)
    sums = MemberSums(list(answers[0].figures))
    for answer in answers:
        sums.add(answer)
    return sums.total(answers[0].partitions)


def _partition(name: str) -> int:
    """Of a full name, or of a number of a partition."""
    return int(name) if name.isdigit() else parse_topic(name).partition


def feed_version(outcomes: Sequence[Outcome]) -> FeedVersion:
    """What all of them hold."""
    return FeedVersion(version=min(answer.version for answer in _all(outcomes)))


def topic_names(outcomes: Sequence[Outcome]) -> TopicNames:
    """Those that are not stored each broker knows of itself alone, and they come last."""
    answers = _all(outcomes)
    return TopicNames(
        topics=list(dict.fromkeys(name for answer in answers for name in answer.topics)), partitioned=answers[0].partitioned
    )


def live(outcomes: Sequence[Outcome]) -> NamespaceLive:
    """Of a topic the row of the broker that has it loaded, up to where the first page ends."""
    answers: list[NamespaceLive] = _all(outcomes)
    rows = {row.topic: row for answer in answers for row in answer.topics}
    rows |= {row.topic: row for answer in answers for row in answer.topics if row.loaded}
    end = min((answer.next for answer in answers if answer.next), default="")
    listed = [rows[topic] for topic in sorted(rows) if not end or partitioned_name(topic) <= end]
    totals = [answer.totals for answer in answers if answer.totals is not None]
    return msgspec.structs.replace(answers[0], topics=listed, next=end, totals=_sums(totals) if totals else None)


def _sums(totals: Sequence[LiveTotals]) -> LiveTotals:
    """How many topics there are all brokers count. What is at rest here may be loaded there."""
    figures = {name: sum(getattr(each, name) for each in totals) for name in LiveTotals.__struct_fields__}
    stored = max(each.at_rest + each.stored for each in totals)
    figures |= {"topics": max(each.topics for each in totals), "at_rest": max(0, stored - figures["stored"])}
    return LiveTotals(**figures)


def ranked(outcomes: Sequence[Outcome]) -> TopicsRanked:
    """Of a topic whose partitions several brokers have, the sum over those that are among the first of each."""
    answers: list[TopicsRanked] = _all(outcomes)
    values: dict[str, float] = {}
    for answer in answers:
        for topic, value in zip(answer.topics, answer.values, strict=True):
            values[topic] = combined(answer.figure, values.get(topic, 0), value)
    first = in_order(values, answers[0].descending)[: max(len(answer.topics) for answer in answers)]
    return msgspec.structs.replace(
        answers[0], topics=first, values=[values[topic] for topic in first], matching=sum(each.matching for each in answers)
    )


def usage_flushed(outcomes: Sequence[Outcome]) -> UsageFlushed:
    answers = _all(outcomes)
    return UsageFlushed(files=[file for answer in answers for file in answer.files], rows=sum(answer.rows for answer in answers))


def maintenance(outcomes: Sequence[Outcome]) -> MaintenanceResult:
    answers = _all(outcomes)
    counts = {
        name: sum(getattr(answer, name) for answer in answers) for name in MaintenanceResult.__struct_fields__ if name != "failed"
    }
    return MaintenanceResult(**counts, failed={topic: why for answer in answers for topic, why in answer.failed.items()})


def compactions_due(outcomes: Sequence[Outcome]) -> CompactionsDuePage:
    answers = _all(outcomes)
    topics = list(dict.fromkeys(topic for answer in answers for topic in answer.topics))
    return CompactionsDuePage(topics=topics, next_after=answers[0].next_after)


def ceilings(outcomes: Sequence[Outcome]) -> CeilingsUsed:
    """What is stored all of them count, and what is connected each knows of all; the others are of each."""
    used: dict[str, int] = {}
    for answer in _all(outcomes):
        for policy, count in answer.used.items():
            added = policy in _OF_EACH or "_rate_" in policy
            used[policy] = used.get(policy, 0) + count if added else max(used.get(policy, 0), count)
    return CeilingsUsed(used=used)


_OF_EACH = {"max_delayed_messages_per_tenant"}


def changes(outcomes: Sequence[Outcome]) -> ChangesUnderWay:
    listed = [change for answer in _all(outcomes) for change in answer.changes]
    return ChangesUnderWay(changes=sorted(listed, key=lambda change: -change.started_ms))


def topics_page(outcomes: Sequence[Outcome]) -> TopicsPage:
    """Up to where the first page ends."""
    answers = _all(outcomes)
    topics = {topic.topic: topic for answer in answers for topic in answer.topics}
    ends = [answer.next for answer in answers if answer.next]
    listed = [topics[name] for name in sorted(topics) if not ends or name <= min(ends)]
    return TopicsPage(topics=listed, next=min(ends, default=""))


def problems(outcomes: Sequence[Outcome]) -> ProblemsFound:
    answers: list[ProblemsFound] = _all(outcomes)
    by_namespace: dict[str, str] = {}
    for answer in answers:
        for namespace, kind in answer.by_namespace.items():
            by_namespace[namespace] = min(by_namespace.get(namespace, kind), kind, key=lambda each: ORDER.get(each, len(ORDER)))
    looked, total = [answer.looked_ms for answer in answers], sum((Counter(answer.total) for answer in answers), Counter[str]())
    told = [problem for answer in answers for problem in answer.problems]
    found = together(told)
    if len(found) < len(told):
        total[Kind.FEWER_COPIES] -= len(told) - len(found)
    return ProblemsFound(
        problems=sorted(found, key=rank),
        total=dict(total),
        by_namespace=by_namespace,
        beyond=sum(answer.beyond for answer in answers),
        unknown_topics=sum(answer.unknown_topics for answer in answers),
        at_ms=answers[0].at_ms,
        looked_ms=None if None in looked else min(each for each in looked if each is not None),
    )


def policy_preview(outcomes: Sequence[Outcome]) -> PolicyPreviewAnswer:
    """Each looked at the topics that it serves. What a namespace or a tenant has together all of them count, and say."""
    first, *others = _all(outcomes)
    effects, count = list(first.effects), first.effects_count
    for answer in others:
        of_topics = [effect for effect in answer.effects if effect.topic]
        effects, count = effects + of_topics, count + answer.effects_count - (len(answer.effects) - len(of_topics))
    looked_at = sum(answer.topics_looked_at for answer in (first, *others))
    topics = max(answer.topics_looked_at + answer.topics_left_out for answer in (first, *others))
    return PolicyPreviewAnswer(
        effects=effects[:EFFECTS_MAX],
        effects_count=count,
        topics_looked_at=looked_at,
        topics_left_out=max(0, topics - looked_at),
    )


def client_list(outcomes: Sequence[Outcome]) -> ClientsListed:
    """The rows of all: who asked knows the order. Brokers that did not answer are counted."""
    answers = [outcome for outcome in outcomes if isinstance(outcome, ClientsListed)]
    if not answers:
        raise next(outcome for outcome in outcomes if isinstance(outcome, MagnetarError))
    libraries = sum((Counter(answer.libraries) for answer in answers), Counter[str]())
    return ClientsListed(
        rows=[row for answer in answers for row in answer.rows],
        total=sum(answer.total for answer in answers),
        producers=sum(answer.producers for answer in answers),
        consumers=sum(answer.consumers for answer in answers),
        libraries=dict(libraries),
        uncounted_libraries=sum(answer.uncounted_libraries for answer in answers),
        unreached=len(outcomes) - len(answers),
    )


# Calls that all brokers answer, each for itself.
OF_EVERY_BROKER: Mapping[str, Merge] = {
    CEILINGS_USED.name: ceilings,
    CHANGES_LIST.name: changes,
    CLIENTS_LIST.name: client_list,
    NAMESPACES_PURGE.name: empty,
    PROBLEMS_LIST.name: problems,
    TOPICS_PAGE.name: topics_page,
    TOPICS_RANKED.name: ranked,
    COMPACTION_DUE.name: compactions_due,
    FEED_APPLY.name: feed_version,
    FEED_PULL.name: feed_version,
    HEALTH.name: empty,
    NAMESPACES_LIVE.name: live,
    TOPICS_LIST.name: topic_names,
    USAGE_FLUSH.name: usage_flushed,
}

# Calls about a partitioned topic that each broker answers for the partitions that it serves.
MERGES: Mapping[str, Merge] = {
    CLIENTS_DISCONNECT.name: disconnected,
    POLICIES_PREVIEW.name: policy_preview,
    SUBSCRIPTIONS_CREATE.name: moved,
    SUBSCRIPTIONS_DEAD_LETTER_POLICY.name: dead_letter_policy,
    SUBSCRIPTIONS_DELETE.name: moved,
    SUBSCRIPTIONS_EXPIRE.name: moved,
    SUBSCRIPTIONS_LIST.name: subscriptions,
    SUBSCRIPTIONS_PROPERTIES.name: subscription_properties,
    SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY.name: empty,
    SUBSCRIPTIONS_RESET.name: moved,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY.name: dead_letter_policy,
    SUBSCRIPTIONS_SET_PROPERTIES.name: moved,
    SUBSCRIPTIONS_SKIP.name: moved,
    TOPICS_COMPACT.name: empty,
    TOPICS_FIGURES.name: partitions,
    TOPICS_INTERNAL_INFO.name: partitions,
    TOPICS_MEMBERS.name: members,
    TOPICS_PARTITIONED_INTERNAL_STATS.name: partitions,
    TOPICS_PARTITIONED_STATS.name: partitioned_stats,
    TOPICS_TERMINATE_PARTITIONS.name: terminated,
    TOPICS_TRIM.name: empty,
    TOPICS_TRUNCATE.name: empty,
    TOPICS_UNLOAD.name: empty,
}
