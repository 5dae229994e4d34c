"""One look at one alert rule: what its topic or topics say now, whether it fires or is over, and saying so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from django.db import transaction

from messaging.adminrpc.methods import TOPICS_FIGURES
from messaging.adminrpc.topics import TopicRef
from messaging.errors import MagnetarError
from messaging.json_types import converted
from workers.alerts import sentences
from workers.alerts.models import AlertRule, TopicStanding
from workers.alerts.notices import OfRule, TenantRef, say
from workers.alerts.patterns import matching_topics
from workers.alerts.rules import Reading, Standing, judge, read, read_partitions, sum_of
from workers.environment import Environment
from workers.runs import Renew

PARTITIONS_SAID = 5  # of a partitioned topic, those with the largest values
FIRED = "fired"
TOPIC_DIGITS = 32  # of its hash: names may be longer than subjects of notices
Partitions = dict[str, list[int | None]]  # index -> [value, counter]


class TopicStats:
    """The figures of one topic at a time: rules come in the order of their topics, and each topic is looked at once for all."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._topic = ""
        self._figures: dict[str, Any] | MagnetarError = {}

    def at(self, topic: str) -> dict[str, Any]:
        """Raises what the broker answers."""
        if topic != self._topic:
            self._topic = topic
            try:
                self._figures = self._environment.rpc.call(TOPICS_FIGURES, TopicRef(topic=topic)).stats
            except MagnetarError as error:
                self._figures = error
        if isinstance(self._figures, MagnetarError):
            raise self._figures
        return self._figures


class _Said(NamedTuple):
    """Something that a rule has to say of a topic."""

    topic: str
    value: int
    partitions: Partitions
    firing: bool
    gone: str = ""  # why it is not looked at any more


def look(environment: Environment, rule: AlertRule, figures: TopicStats, renew: Renew) -> Standing:
    """Raises what the broker answers; the rule then stands as it stood."""
    if rule.is_pattern:
        return _look_at_pattern(environment, rule, figures, renew)
    return _look_at_topic(environment, rule, figures)


def _look_at_topic(environment: Environment, rule: AlertRule, figures: TopicStats) -> Standing:
    now = environment.now()
    reading, partitions = _read(rule, figures.at(rule.topic), rule.counter, rule.partitions)
    before = Standing(rule.firing, rule.above_since)
    after = judge(before, reading.value, now, threshold=rule.threshold, clear=rule.clear, hold_s=rule.hold_s)
    said = _Said(rule.topic, reading.value, partitions, after.firing)
    _store(
        rule,
        now,
        [said] if after.firing != before.firing else [],
        [said] if after.firing else [],
        value=reading.value,
        counter=reading.counter,
        partitions=partitions,
        above_since=after.above_since,
        firing=after.firing,
        problem="",
    )
    return after


def _look_at_pattern(environment: Environment, rule: AlertRule, figures: TopicStats, renew: Renew) -> Standing:
    """Each topic for itself. One that cannot be looked at stands as it stood."""
    now = environment.now()
    matching = matching_topics(environment.rpc, rule.topic)
    before = converted(rule.topics, dict[str, TopicStanding])
    after: dict[str, TopicStanding] = {}
    problem, changed = "", []
    for topic in matching.topics:
        renew()
        stood = before.get(topic, TopicStanding())
        try:
            reading, partitions = _read(rule, figures.at(topic), stood.counter, stood.partitions)
        except MagnetarError as error:
            problem = problem or error.message
            after[topic] = msgspec.structs.replace(stood, unknown=True)
            continue
        above_since = datetime.fromtimestamp(stood.above_since_ms / 1000, UTC) if stood.above_since_ms is not None else None
        standing = judge(
            Standing(stood.firing, above_since), reading.value, now, threshold=rule.threshold, clear=rule.clear, hold_s=rule.hold_s
        )
        after[topic] = TopicStanding(
            value=reading.value,
            counter=reading.counter,
            partitions=partitions,
            above_since_ms=int(standing.above_since.timestamp() * 1000) if standing.above_since else None,
            firing=standing.firing,
        )
        if standing.firing != stood.firing:
            changed.append(_Said(topic, reading.value, partitions, standing.firing))
    changed += [
        _Said(topic, 0, {}, False, sentences.alert_gone(topic, left_out=not matching.complete))
        for topic, stood in before.items()
        if stood.firing and topic not in after
    ]  # also of one that is not among those looked at any more
    firing = [_Said(topic, stands.value, stands.partitions, True) for topic, stands in after.items() if stands.firing]
    since = min((stands.above_since_ms for stands in after.values() if stands.firing and stands.above_since_ms), default=None)
    _store(
        rule,
        now,
        changed,
        firing,
        value=max((stands.value for stands in after.values()), default=0),
        topics=msgspec.to_builtins(after),
        topics_left_out=not matching.complete,
        above_since=datetime.fromtimestamp(since / 1000, UTC) if since is not None else None,
        firing=bool(firing),
        problem=problem[:500],
    )
    return Standing(bool(firing), None)


def _store(rule: AlertRule, now: datetime, changed: Sequence[_Said], still: Sequence[_Said], **fields: Any) -> None:
    """Where the rule stands, with what it has to say: `changed`, and once a silence has ended, all that is `still` firing."""
    ended = rule.silenced_until is not None and rule.silenced_until <= now
    silence = sentences.silenced(rule.silenced_until) if rule.silenced_until and not ended else ""
    with transaction.atomic():
        AlertRule.objects.filter(id=rule.id).update(looked_at=now, **fields)
        if ended:
            same = AlertRule.objects.filter(id=rule.id, silenced_until=rule.silenced_until)  # not silenced anew meanwhile
            ended = same.update(silenced_until=None, silenced_by="", silence_reason="") > 0
        for said in changed:
            _say(rule, now, said, FIRED if said.firing else "is over", silence)
        for said in still if ended else ():
            if said not in changed:
                _say(rule, now, said, "fires, and was silenced", "")


def _read(rule: AlertRule, stats: dict[str, Any], counter: int | None, before: Partitions) -> tuple[Reading, Partitions]:
    """The value, and those of the partitions."""
    parts = stats.get("partitions")
    if parts is None:
        return read(rule.kind, stats, rule.subscription, counter), {}
    counters = {index: of_it for index, (_, of_it) in before.items() if of_it is not None}
    readings = read_partitions(rule.kind, parts, rule.subscription, counters)
    value = sum_of(rule.kind, parts, rule.subscription, readings)
    return Reading(value), {index: [reading.value, reading.counter] for index, reading in readings.items()}


def _say(rule: AlertRule, now: datetime, said: _Said, word: str, silence: str) -> None:
    of = f"{said.topic} {rule.subscription}".strip()
    local = said.topic.rpartition("/")[2] if rule.is_pattern else ""
    by_partition = sorted(((int(index), int(value or 0)) for index, (value, _) in said.partitions.items()), key=_largest_first)
    largest = [(index, of_it) for index, of_it in by_partition[:PARTITIONS_SAID] if of_it]
    of_topic = f" {hashlib.sha256(said.topic.encode()).hexdigest()[:TOPIC_DIGITS]}" if rule.is_pattern else ""
    say(
        now,
        TenantRef(rule.tenant, rule.tenant_uid),
        "alert_fired" if said.firing else "alert_over",
        f"alert {rule.id} {word} {now.timestamp():.0f}{of_topic}",
        sentences.alert_title(rule.name, local, firing=said.firing, was_silenced=said.firing and word != FIRED),
        said.gone or sentences.alert_text(rule.kind, of, said.value, rule.threshold, rule.clear, largest),
        of=OfRule(rule.id, rule.runbook_url, silence),
    )


def _largest_first(item: tuple[int, int]) -> tuple[int, int]:
    return -item[1], item[0]
